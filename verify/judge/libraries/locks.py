# Locks of Python's libraries, for marketsim judge: the argument says which. Needs Debian's packages python3-redis,
# python3-portalocker, python3-tooz, python3-dogpile.cache and python3-django-redis, for /usr/bin/python3.
#
#     marketsim judge -- /usr/bin/python3 verify/judge/libraries/locks.py tooz
#
# Each is opened as its documentation tells; where something else is set, the name of the lock says so.
import asyncio
import os
import sys
import time

LEASE = int(os.environ["LOCK_TTL_MS"]) / 1000
RETRY = int(os.environ["LOCK_RETRY_MS"]) / 1000
HOST = os.environ["REDIS_HOST"]
PORT = int(os.environ["REDIS_PORT"])
PREFIX = os.environ["KEY_PREFIX"]


def said_by(release):
    """What a release of redis-py's Lock says: it raises an error if the lock was lost."""
    import redis

    try:
        release()
        return "released"
    except redis.exceptions.LockNotOwnedError:
        return "lost"


class RedisPy:
    """redis-py's Lock with a time-out, which it does not have by default."""

    timeout = LEASE

    def __init__(self):
        import redis

        self.server = redis.Redis(host=HOST, port=PORT)

    def acquire(self, name):
        self.lock = self.server.lock(PREFIX + name, timeout=self.timeout, sleep=RETRY)
        return self.lock.acquire(blocking_timeout=4 * LEASE)

    def release(self):
        return said_by(self.lock.release)


class RedisPyDefaults(RedisPy):
    """redis-py's Lock as it is by default: it has no lease."""

    timeout = None


class Dogpile:
    """The mutex of dogpile.cache's Redis backend. By default its lock_timeout is None: no lease."""

    lock_timeout = LEASE

    def __init__(self):
        from dogpile.cache import make_region

        self.region = make_region().configure(
            "dogpile.cache.redis",
            arguments={
                "host": HOST,
                "port": PORT,
                "distributed_lock": True,
                "thread_local_lock": False,
                "lock_timeout": self.lock_timeout,
                "lock_sleep": RETRY,
            },
        )

    def acquire(self, name):
        self.lock = self.region.backend.get_mutex(PREFIX + name)
        return self.lock.acquire()

    def release(self):
        return said_by(self.lock.release)


class DogpileDefaults(Dogpile):
    lock_timeout = None


class DjangoRedis:
    """The lock of django-redis's cache, with a time-out, which it does not have by default."""

    def __init__(self):
        from django.conf import settings

        settings.configure(
            CACHES={
                "default": {
                    "BACKEND": "django_redis.cache.RedisCache",
                    "LOCATION": f"redis://{HOST}:{PORT}/0",
                }
            }
        )
        from django.core.cache import cache

        self.cache = cache

    def acquire(self, name):
        self.lock = self.cache.lock(PREFIX + name, timeout=LEASE, sleep=RETRY, blocking_timeout=4 * LEASE)
        return self.lock.acquire()

    def release(self):
        return said_by(self.lock.release)


class Tooz:
    """The lock of tooz's Redis driver. lock_timeout is in whole seconds; heartbeats renew it."""

    def __init__(self):
        from tooz import coordination

        url = f"redis://{HOST}:{PORT}?lock_timeout={max(1, round(LEASE))}"
        self.coordinator = coordination.get_coordinator(url, f"member-{os.getpid()}".encode())
        self.coordinator.start(start_heart=True)

    def acquire(self, name):
        self.lock = self.coordinator.get_lock((PREFIX + name).encode())
        return self.lock.acquire(blocking=4 * LEASE)

    def release(self):
        return "released" if self.lock.release() else "lost"


class Portalocker:
    """The lock of portalocker: who listens to a channel holds it. It has no lease: it ends with a connection."""

    def __init__(self):
        import portalocker

        self.portalocker = portalocker

    def acquire(self, name):
        self.lock = self.portalocker.RedisLock(
            PREFIX + name,
            timeout=4 * LEASE,
            check_interval=RETRY,
            redis_kwargs={"host": HOST, "port": PORT, "health_check_interval": 10},
        )
        try:
            self.lock.acquire()
            return True
        except self.portalocker.exceptions.AlreadyLocked:
            return False

    def release(self):
        self.lock.release()
        return "done"


LOCKS = {
    "redis-py": RedisPy,
    "redis-py-defaults": RedisPyDefaults,
    "dogpile": Dogpile,
    "dogpile-defaults": DogpileDefaults,
    "django-redis": DjangoRedis,
    "tooz": Tooz,
    "portalocker": Portalocker,
}


def serve(lock):
    for line in sys.stdin:
        line = line.strip()
        try:
            if line.startswith("acquire "):
                answer = "acquired" if lock.acquire(line.split()[1]) else "timeout"
            elif line == "release":
                answer = lock.release()
            elif line == "now":
                answer = str(time.time_ns() // 1_000_000)
            elif line == "can cancel":
                answer = "no"  # a thread that waits for the server cannot be cancelled
            else:
                answer = "error this is not understood: " + line
        except Exception as e:
            answer = "error " + " ".join(repr(e).split())
        print(answer, flush=True)


async def serve_asyncio():
    """redis-py's asyncio Lock with a time-out. A call that is cancelled is a task that is cancelled."""
    import redis.asyncio
    import redis.exceptions

    server = redis.asyncio.Redis(host=HOST, port=PORT)
    lock = None

    async def call(line):
        nonlocal lock
        try:
            if line.startswith("acquire "):
                lock = server.lock(PREFIX + line.split()[1], timeout=LEASE, sleep=RETRY)
                return "acquired" if await lock.acquire(blocking_timeout=4 * LEASE) else "timeout"
            if line == "release":
                await lock.release()
                return "released"
            if line == "now":
                return str(time.time_ns() // 1_000_000)
            return "yes" if line == "can cancel" else "error this is not understood: " + line
        except redis.exceptions.LockNotOwnedError:
            return "lost"
        except asyncio.CancelledError:
            return "cancelled"
        except Exception as e:
            return "error " + " ".join(repr(e).split())

    async def answered(line):
        print(await call(line), flush=True)

    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    under_way = None
    while line := (await lines.readline()).decode().strip():
        if line != "cancel":
            under_way = asyncio.create_task(answered(line))
        elif under_way:
            under_way.cancel()


name = sys.argv[1] if len(sys.argv) == 2 else ""
if name == "redis-py-asyncio":
    asyncio.run(serve_asyncio())
elif name in LOCKS:
    serve(LOCKS[name]())
else:
    sys.exit("usage: locks.py LOCK, one of redis-py-asyncio, " + ", ".join(LOCKS))

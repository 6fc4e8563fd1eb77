# Shows on the redis-server of REDIS_HOST and REDIS_PORT that a release of redis-py's Lock that fails cannot be repeated:
# the lock forgets its token before it asks the server. By default it has no lease, so that it stays locked for good.
# The same through dogpile.cache's mutex, which has it from there, and with redis-py's asyncio Lock. tooz's lock repeats it by
# itself, says that it was lost, and stays locked for its lease. Ends with 0 if all was seen, and with 3 if not.
import asyncio
import os
import socket
import sys
import threading
import uuid

import redis
import redis.asyncio

HOST, PORT = os.environ["REDIS_HOST"], int(os.environ["REDIS_PORT"])
server = redis.Redis(host=HOST, port=PORT)
seen = []


class Proxy:
    """Passes on what clients send; once it is told to, it ends a connection instead of passing on what comes."""

    def __init__(self):
        self.cuts = False
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            client, _ = self.listener.accept()
            upstream = socket.create_connection((HOST, PORT))
            threading.Thread(target=self.passes, args=(client, upstream, True), daemon=True).start()
            threading.Thread(target=self.passes, args=(upstream, client, False), daemon=True).start()

    def passes(self, source, to, is_client):
        try:
            while data := source.recv(1 << 16):
                if is_client and self.cuts:
                    self.cuts = False
                    break
                to.sendall(data)
        except OSError:
            pass  # the other thread has closed it
        for end in (source, to):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # it has ended


def told(what, call):
    try:
        answer = repr(call())
    except Exception as e:
        answer = type(e).__name__ + ": " + str(e)
    print(f"{what}: {answer}")
    return answer


def shows(what, key, first, second, forgets="Cannot release an unlocked lock"):
    """A release that failed, another one, and whether the key is still there."""
    stays, lease = server.exists(key), server.pttl(key)
    print(f"{what}: the key {'stays' if stays else 'is gone'}, {'without a lease' if lease == -1 else f'for {lease} ms'}\n")
    server.delete(key)
    seen.append(("onnection" in first or "False" in first) and forgets in second and stays)


def redis_py():
    proxy, key = Proxy(), "confirm-" + uuid.uuid4().hex
    lock = redis.Redis(host="127.0.0.1", port=proxy.port).lock(key)
    lock.acquire()
    proxy.cuts = True
    first = told("redis-py's Lock: release, whose connection breaks", lock.release)
    second = told("redis-py's Lock: release again", lock.release)
    shows("redis-py's Lock, as it is by default", key, first, second)


async def redis_py_asyncio():
    proxy, key = Proxy(), "confirm-" + uuid.uuid4().hex
    client = redis.asyncio.Redis(host="127.0.0.1", port=proxy.port)
    lock = client.lock(key)
    await lock.acquire()
    proxy.cuts = True
    answers = []
    for what in ("release, whose connection breaks", "release again"):
        try:
            answers.append(repr(await lock.release()))
        except Exception as e:
            answers.append(type(e).__name__ + ": " + str(e))
        print(f"redis-py's asyncio Lock: {what}: {answers[-1]}")
    shows("redis-py's asyncio Lock, as it is by default", key, *answers)
    await client.close()


def dogpile():
    from dogpile.cache import make_region

    proxy, key = Proxy(), "confirm-" + uuid.uuid4().hex
    arguments = {"host": "127.0.0.1", "port": proxy.port, "distributed_lock": True, "thread_local_lock": False}
    mutex = make_region().configure("dogpile.cache.redis", arguments=arguments).backend.get_mutex(key)
    mutex.acquire()
    proxy.cuts = True
    first = told("dogpile.cache's mutex: release, whose connection breaks", mutex.release)
    second = told("dogpile.cache's mutex: release again", mutex.release)
    shows("dogpile.cache's mutex, as it is by default", "_lock" + key, first, second)


def tooz():
    from tooz import coordination

    proxy = Proxy()
    coordinator = coordination.get_coordinator(f"redis://127.0.0.1:{proxy.port}?lock_timeout=30", b"member")
    coordinator.start()
    lock = coordinator.get_lock(uuid.uuid4().hex.encode())
    lock.acquire()
    proxy.cuts = True
    # It calls redis-py's release again itself, and says what that says.
    answer = told("tooz's lock: release, whose connection breaks", lock.release)
    lease = server.pttl(lock.name)
    print(f"tooz's lock: is told to be {'held' if lock.acquired else 'free'}, and the key stays for {lease} ms")
    server.delete(lock.name)
    seen.append(answer == "False" and not lock.acquired and lease > 0)


redis_py()
asyncio.run(redis_py_asyncio())
dogpile()
tooz()
sys.exit(0 if all(seen) else 3)

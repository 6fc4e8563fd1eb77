# Locks that a thread renews while they are held, as the first argument says:
#   stops     the thread ends before the lock is released: sound
#   goes-on   the thread compares, and never ends: sound
#   forever   the thread neither compares nor ends: it renews the lock of another one, too
#   chain     the thread sends each renewal four times, with the time at which the lease ends: sound
#   tardy     the thread sends its first renewal when the lease has ended: sound, as nobody has to renew
#   child     one thread of a child process renews all locks, and compares: sound
import json, os, subprocess, sys, threading, time, uuid
import redis

kind = sys.argv[1]
lease, between = int(os.environ["LOCK_TTL_MS"]), int(os.environ["LOCK_RETRY_MS"]) / 1000
server = redis.Redis(os.environ["REDIS_HOST"], int(os.environ["REDIS_PORT"]), socket_timeout=5)
delete = server.register_script(
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0")
expire = server.register_script(
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0")


expire_at = server.register_script(
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpireat', KEYS[1], ARGV[2]) end return 0")


def renew(key, token):
    try:
        if kind == "chain":
            ends = int(time.time() * 1000) + lease
            for _ in range(4):
                expire_at([key], [token, ends])
        elif kind == "forever":
            server.pexpire(key, lease)
        else:
            expire([key], [token, lease])
    except (redis.exceptions.ConnectionError, redis.exceptions.TimeoutError):
        pass  # the next one comes within the lease


class Renewal(threading.Thread):
    def __init__(self, key, token):
        super().__init__(daemon=True)
        self.key, self.token, self.over = key, token, threading.Event()
        self.start()

    def run(self):
        while not self.over.wait(lease / 800 if kind == "tardy" else lease / 3000):
            renew(self.key, self.token)

    def end(self):
        if kind in ("stops", "chain", "tardy"):
            self.over.set()
            self.join()


class Child:
    """A process that renews what it is told to, until it is told otherwise."""

    def __init__(self):
        command = [sys.executable, __file__, "child", "renews"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, text=True)

    def tell(self, key, token):
        print(json.dumps([key, token]), file=self.process.stdin, flush=True)


def renew_all():
    held = {}
    lock = threading.Lock()

    def hear():
        for line in sys.stdin:
            key, token = json.loads(line)
            with lock:
                held.pop(key, None)
                if token:
                    held[key] = token
        os._exit(0)

    threading.Thread(target=hear, daemon=True).start()
    while True:
        time.sleep(lease / 4000)
        with lock:
            now = list(held.items())
        for key, token in now:
            renew(key, token)


if sys.argv[2:] == ["renews"]:
    renew_all()
child = Child() if kind == "child" else None
key = token = renewal = None
for line in sys.stdin:
    word = line.split()
    try:
        if word[0] == "now":
            answer = str(time.time_ns() // 1000000)
        elif word[0] == "acquire":
            key, token = os.environ["KEY_PREFIX"] + word[1], uuid.uuid4().hex
            while not server.set(key, token, nx=True, px=lease):
                time.sleep(between)
            if child:
                child.tell(key, token)
            else:
                renewal = Renewal(key, token)
            answer = "acquired"
        elif word[0] == "release":
            if child:
                child.tell(key, "")
            else:
                renewal.end()
            answer = "released" if delete([key], [token]) else "lost"
        else:
            answer = "error: " + line
    except Exception as e:
        answer = "error " + repr(e)
    print(answer, flush=True)

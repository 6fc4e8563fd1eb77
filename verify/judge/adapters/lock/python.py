# The lock of redis-py, for marketsim judge. Needs the package redis (apt-get install python3-redis).
import os, queue, sys, threading, time
import redis

server = redis.Redis(os.environ["REDIS_HOST"], int(os.environ["REDIS_PORT"]), socket_timeout=5)
lease, between = int(os.environ["LOCK_TTL_MS"]) / 1000, int(os.environ["LOCK_RETRY_MS"]) / 1000
calls, cancelled = queue.Queue(), threading.Event()


def read():  # in a thread of its own: a call may be under way when "cancel" comes
    for line in sys.stdin:
        if line.strip() == "cancel":
            cancelled.set()
            try:
                server.connection_pool.disconnect()  # nobody waits for a reply any more
            except AttributeError:
                pass  # the other thread has closed the connection at the same time
        else:
            cancelled.clear()
            calls.put(line.split())
    calls.put(None)


def acquire(lock):
    ends = time.monotonic() + 4 * lease
    while time.monotonic() < ends:
        if lock.acquire(blocking=False):
            return "acquired"
        time.sleep(between)
        if cancelled.is_set():
            return "cancelled"  # what it may have taken ends with its lease
    return "timeout"


threading.Thread(target=read, daemon=True).start()
for word in iter(calls.get, None):
    try:
        if word == ["can", "cancel"]:
            answer = "yes"
        elif word[0] == "now":
            answer = str(time.time_ns() // 1000000)
        elif word[0] == "acquire":
            lock = server.lock(os.environ["KEY_PREFIX"] + word[1], timeout=lease)
            answer = acquire(lock)
        else:
            lock.release()  # forgets its token first: if it fails, the lock ends with its lease
            answer = "released"
    except redis.exceptions.LockNotOwnedError:
        answer = "lost"
    except Exception as e:
        answer = "cancelled" if cancelled.is_set() else "error " + repr(e)
    print(answer, flush=True)

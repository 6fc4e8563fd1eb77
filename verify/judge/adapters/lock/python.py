# The lock of redis-py, for marketsim judge. Needs the package redis (apt-get install python3-redis).
import os
import queue
import sys
import threading
import time

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

LEASE = int(os.environ["LOCK_TTL_MS"]) / 1000
RETRY = int(os.environ["LOCK_RETRY_MS"]) / 1000
PREFIX = os.environ["KEY_PREFIX"]

server = redis.Redis(
    host=os.environ["REDIS_HOST"],
    port=int(os.environ["REDIS_PORT"]),
    socket_timeout=5,
    retry=Retry(NoBackoff(), 0),  # a SET NX that is sent again finds the client's own lock
)
calls = queue.Queue()


def read_calls():
    """Reads in a thread of its own, because a call may be under way when "cancel" comes."""
    cancelled = threading.Event()
    for line in sys.stdin:
        if line.strip() == "cancel":
            cancelled.set()
            stop_waiting()
        else:
            cancelled = threading.Event()  # of this call alone
            calls.put((line.strip(), cancelled))
    calls.put(None)


def stop_waiting():
    """Closes the connection, because nobody waits for a reply any more."""
    try:
        server.connection_pool.disconnect()
    except AttributeError:
        pass  # the other thread has closed it at the same time


def acquire(lock, cancelled):
    gives_up = time.monotonic() + 4 * LEASE
    while time.monotonic() < gives_up:
        if lock.acquire(blocking=False):
            return "acquired"
        time.sleep(RETRY)
        if cancelled.is_set():
            return "cancelled"  # what it may have taken ends with its lease
    return "timeout"


def release(lock):
    try:
        lock.release()  # forgets its token first: if it fails, the lock ends with its lease
        return "released"
    except redis.exceptions.LockNotOwnedError:
        return "lost"


threading.Thread(target=read_calls, daemon=True).start()
lock = None
for line, cancelled in iter(calls.get, None):
    try:
        if line.startswith("acquire "):
            lock = server.lock(PREFIX + line.split()[1], timeout=LEASE)
            answer = acquire(lock, cancelled)
        elif line == "release":
            answer = release(lock)
        elif line == "now":
            answer = str(time.time_ns() // 1_000_000)
        elif line == "can cancel":
            answer = "yes"
        else:
            answer = "error this is not understood: " + line
    except Exception as e:
        answer = "cancelled" if cancelled.is_set() else "error " + repr(e)
    print(answer, flush=True)

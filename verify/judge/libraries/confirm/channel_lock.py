# Shows on the redis-server of REDIS_HOST and REDIS_PORT that portalocker's RedisLock is not taken from a holder that is
# stopped: a waiter takes the reply to its own subscription for the holder's answer, so that unavailable_timeout, a
# second, never ends the holder's connection. And that a holder whose connection breaks is told: its main thread is
# interrupted. Ends with 0 if both were seen, and with 3 if not.
import os
import signal
import subprocess
import sys
import time
import uuid

import portalocker
import redis

server = {"host": os.environ["REDIS_HOST"], "port": int(os.environ["REDIS_PORT"])}


def holds(channel, seconds):
    lock = portalocker.RedisLock(channel, timeout=seconds, check_interval=0.1, redis_kwargs=dict(server))
    lock.acquire()
    return lock


def told(lines, what):
    line = lines.readline().strip()
    print(f"{what}: {line}")
    return line


if len(sys.argv) == 2:  # the first holder
    # What a shell runs beside itself is started with this signal ignored, which is the interrupt.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    lock = holds(sys.argv[1], 5)
    print("has acquired", flush=True)
    try:
        while lock.thread.is_alive():  # its own, that listens
            time.sleep(0.01)
        print("is not interrupted", flush=True)
    except KeyboardInterrupt:
        print("is interrupted", flush=True)
    sys.exit()

channel = "confirm-" + uuid.uuid4().hex
client = redis.Redis(**server)
first = subprocess.Popen(
    [sys.executable, __file__, channel],
    stdout=subprocess.PIPE,
    stderr=subprocess.DEVNULL,  # where its thread tells of the connection
    text=True,
)
told(first.stdout, "the first client")
first.send_signal(signal.SIGSTOP)
try:
    holds(channel, 3).release()
    stays = False
except portalocker.exceptions.AlreadyLocked:
    stays = True
print("it is stopped, and a second one that waits three seconds", "does not get in" if stays else "gets in")

for connection in client.client_list("pubsub"):
    if connection["name"] == channel + "-lock":
        client.client_kill_filter(connection["id"])
second = holds(channel, 20)
print("its connection breaks, and the second one has acquired")
first.send_signal(signal.SIGCONT)

state = told(first.stdout, "the first client goes on, and")
first.kill()
second.release()
sys.exit(0 if stays and state == "is interrupted" else 3)

# The lock of redis-py, for marketsim judge. Needs the package redis (apt-get install python3-redis).
import os, sys, time
import redis

server = redis.Redis(os.environ["REDIS_HOST"], int(os.environ["REDIS_PORT"]), socket_timeout=5)
lease, between = int(os.environ["LOCK_TTL_MS"]) / 1000, int(os.environ["LOCK_RETRY_MS"]) / 1000
for line in sys.stdin:
    word = line.split()
    try:
        if word[0] == "now":
            answer = str(time.time_ns() // 1000000)
        elif word[0] == "acquire":
            lock = server.lock(os.environ["KEY_PREFIX"] + word[1], timeout=lease, sleep=between, blocking_timeout=4 * lease)
            answer = "acquired" if lock.acquire() else "timeout"
        else:
            lock.release()
            answer = "released"
    except redis.exceptions.LockNotOwnedError:
        answer = "lost"
    except Exception as e:
        answer = "error " + repr(e)
    print(answer, flush=True)

# Locks in which the client's clock has some part, as the first argument says:
#   time     ends at a time by the server's clock, which all ask for: sound
#   getset   ends at a time by the client's clock, in milliseconds, which others compare with theirs
#   pxat     expires at a time by the client's clock
#   scores   a semaphore of one, in whose sorted set the scores are floats by the client's clock
#   token    a token with the client's clock inside, which nobody reads: sound
#   signed   ends at a time by the client's clock, beside its signature
import hashlib, hmac, os, sys, time, uuid
import redis

kind = sys.argv[1]
server = redis.Redis(os.environ["REDIS_HOST"], int(os.environ["REDIS_PORT"]), socket_timeout=5, decode_responses=True)
lease, between = int(os.environ["LOCK_TTL_MS"]), int(os.environ["LOCK_RETRY_MS"]) / 1000


def own_time():
    return time.time_ns() // 1000000


def servers_time():
    seconds, microseconds = server.execute_command("TIME")
    return int(seconds) * 1000 + int(microseconds) // 1000


def signature(ends):
    return hmac.new(b"secret", str(ends).encode(), hashlib.sha256).hexdigest()


def ends_at(key, clock):
    """SETNX, GET and GETSET, as it was in the documentation once."""
    ends = clock() + lease
    if server.setnx(key, ends):
        return ends
    old = server.get(key)
    return ends if old and int(old) < clock() and server.getset(key, ends) == old else None


def in_semaphore(key):
    now, token = time.time(), uuid.uuid4().hex
    with server.pipeline() as pipeline:
        pipeline.zremrangebyscore(key, "-inf", now - lease / 1000)
        pipeline.zadd(key, {token: now})
        pipeline.zrank(key, token)
        rank = pipeline.execute()[-1]
    if rank == 0:
        return token
    server.zrem(key, token)
    return None


def with_signature(key):
    ends = own_time() + lease
    if server.set(key, ends, nx=True, px=lease):
        server.set(key + ":signature", signature(ends), px=lease)
        return ends
    old, signed = server.mget(key, key + ":signature")
    if old and signed and signed != signature(old):
        raise ValueError("somebody has forged " + old)
    return None


def take(key):
    if kind == "time":
        return ends_at(key, servers_time)
    if kind == "getset":
        return ends_at(key, own_time)
    if kind == "scores":
        return in_semaphore(key)
    if kind == "signed":
        return with_signature(key)
    if kind == "pxat":
        token = uuid.uuid4().hex
        return token if server.set(key, token, nx=True, pxat=own_time() + lease) else None
    token = "%s:%d" % (uuid.uuid4().hex, own_time())
    return token if server.set(key, token, nx=True, px=lease) else None


def release(key, token):
    if kind == "scores":
        return server.zrem(key, token)
    return server.eval("if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0",
                       1, key, token)


key = token = None
for line in sys.stdin:
    word = line.split()
    try:
        if word[0] == "now":
            answer = str(own_time())
        elif word[0] == "acquire":
            key, token = os.environ["KEY_PREFIX"] + word[1], None
            while not token:
                token = take(key)
                if not token:
                    time.sleep(between)
            answer = "acquired"
        elif word[0] == "release":
            answer = "released" if release(key, token) else "lost"
        else:
            answer = "error"
    except Exception as e:
        answer = "error " + repr(e)
    print(answer, flush=True)

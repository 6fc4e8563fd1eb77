# Sound locks that wait in the server, as the first argument says: for a list (blpop) or for a message.
import os, sys, time, uuid
import redis

kind = sys.argv[1]
server = redis.Redis.from_url(os.environ["REDIS_URL"], socket_timeout=5, decode_responses=True)
lease = int(os.environ["LOCK_TTL_MS"])
release = """
if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('del', KEYS[1])
if ARGV[2] == 'message' then
  redis.call('publish', KEYS[2], '')
else
  redis.call('del', KEYS[2])
  redis.call('lpush', KEYS[2], '')
  redis.call('pexpire', KEYS[2], ARGV[3])
end
return 1"""


def acquire(name, token):
    heard = server.pubsub() if kind == "message" else None
    if heard:
        heard.subscribe(name + ":free")  # before the first try: what is published from now on is heard
        heard.get_message(timeout=5)
    while not server.set(name, token, nx=True, px=lease):
        if heard:
            heard.get_message(timeout=lease / 1000)
        else:
            server.blpop([name + ":free"], timeout=lease / 1000)
    if heard:
        heard.close()


name = token = ""
for line in sys.stdin:
    word = line.split()
    try:
        if word[0] == "acquire":
            name, token = word[1], uuid.uuid4().hex
            acquire(name, token)
            print("acquired", flush=True)
        else:
            freed = server.eval(release, 2, name, name + ":free", token, kind, lease)
            print("released" if freed else "lost", flush=True)
    except Exception as e:
        print("error " + repr(e), flush=True)

# A lock that is wrong as its first argument says: the controls of marketsim judge.
import os, sys, time, uuid
import redis

kind = sys.argv[1]
server = redis.Redis(os.environ["REDIS_HOST"], int(os.environ["REDIS_PORT"]), socket_timeout=5)
lease = int(os.environ["LOCK_TTL_MS"])


def taken(name, token):
    if kind == "setnx-pexpire":
        return server.setnx(name, token) and server.pexpire(name, lease)
    if kind == "get-set":
        return not server.get(name) and server.set(name, token, px=lease)
    if kind == "clock":
        ends = time.time() + lease / 1000
        if server.setnx(name, ends):
            return True
        old = server.get(name)
        return old and float(old) < time.time() and server.getset(name, ends) == old
    return server.set(name, token, nx=True, px=lease)


for line in sys.stdin:
    word = line.split()
    if word[0] == "now":
        print(int(time.time() * 1000), flush=True)
    elif word[0] == "acquire":
        name, token = word[1], "held" if kind == "fixed" else uuid.uuid4().hex
        while not taken(name, token):
            time.sleep(0.002)
        print("acquired", flush=True)
    else:
        if kind != "get-del" or server.get(name) == token.encode():
            server.delete(name)
        print("done", flush=True)

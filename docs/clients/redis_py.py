# What redis-py tells whoever called it when a reply is lost: /usr/bin/python3 redis_py.py HOST PORT incrby|buy [careful]
# "careful" asks what is behind a WatchError: a connection error means that nobody knows whether EXEC was executed.
import sys

import redis

host, port, what, *options = sys.argv[1:]
client = redis.Redis(host, int(port))


def buy():
    with client.pipeline() as pipe:
        while True:
            try:
                pipe.watch("coins")
                left = int(pipe.get("coins")) - 10
                pipe.multi()
                pipe.set("coins", left)
                return pipe.execute()
            except redis.WatchError as refused:
                if options == ["careful"] and refused.__context__:
                    raise refused.__context__


print(redis.__version__)
try:
    client.incrby("n", 1) if what == "incrby" else buy()
    print("no error")
except redis.RedisError as error:
    print(type(error).__name__)

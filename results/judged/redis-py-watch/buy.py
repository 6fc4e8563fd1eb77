# A purchase in the loop of redis-py's documentation: it begins anew after each WatchError. One of these is not about what
# others wrote: redis-py raises it also where the connection broke after EXEC was sent.
import os, sys
import redis

server = redis.Redis(os.environ["REDIS_HOST"], int(os.environ["REDIS_PORT"]), socket_timeout=5, decode_responses=True)


def buy(item, buyer, seller, price):
    with server.pipeline() as pipe:
        while True:
            try:
                pipe.watch("market:", "users:" + buyer)
                listed, funds = pipe.zscore("market:", item + "." + seller), int(pipe.hget("users:" + buyer, "funds"))
                if listed is None:
                    return "gone"
                if int(listed) != price:
                    return "price"
                if funds < price:
                    return "funds"
                pipe.multi()
                pipe.hincrby("users:" + buyer, "funds", -price)
                pipe.hincrby("users:" + seller, "funds", price)
                pipe.zrem("market:", item + "." + seller)
                pipe.sadd("inventory:" + buyer, item)
                pipe.execute()
                return "bought"
            except redis.WatchError:
                continue


for line in sys.stdin:
    _, item, buyer, seller, price = line.split()
    try:
        answer = buy(item, buyer, seller, int(price))
    except Exception as e:
        answer = "error " + repr(e)
    print(answer, flush=True)

# A purchase in the loop of redis-py's documentation: it begins anew after each WatchError. One of these is not about what
# others wrote: redis-py raises it also where the connection broke after EXEC was sent.
import os, sys
import redis

server = redis.Redis.from_url(os.environ["REDIS_URL"], socket_timeout=5, decode_responses=True)
market, users, inventory = (os.environ["KEY_PREFIX"] + name for name in ("market:", "users:", "inventory:"))


def buy(item, buyer, seller, price):
    retries = 0
    with server.pipeline() as pipe:
        while True:
            try:
                pipe.watch(market, users + buyer)
                listed, funds = pipe.zscore(market, item + "." + seller), int(pipe.hget(users + buyer, "funds"))
                if listed is None:
                    return "gone"
                if int(listed) != price:
                    return "price"
                if funds < price:
                    return "funds"
                pipe.multi()
                pipe.hincrby(users + buyer, "funds", -price)
                pipe.hincrby(users + seller, "funds", price)
                pipe.zrem(market, item + "." + seller)
                pipe.sadd(inventory + buyer, item)
                pipe.execute()
                return "bought " + str(retries)
            except redis.WatchError:
                retries += 1


def offer(item, seller, price):
    with server.pipeline() as pipe:
        had, _ = pipe.srem(inventory + seller, item).zadd(market, {item + "." + seller: price}).execute()
    return "listed" if had else "error the seller did not have it"


for line in sys.stdin:
    word, *order, price = line.split()
    try:
        answer = (buy if word == "buy" else offer)(*order, int(price))
    except Exception as e:
        answer = "error " + repr(e)
    print(answer, flush=True)

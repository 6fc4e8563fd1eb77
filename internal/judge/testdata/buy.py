# A purchase that is wrong as its first argument says: the controls of marketsim judge --purchase.
import os, sys
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

kind = sys.argv[1]
again = Retry(NoBackoff(), 1) if kind == "script-again" else None
server = redis.Redis.from_url(os.environ["REDIS_URL"], socket_timeout=5, decode_responses=True, retry=again,
                              retry_on_error=[redis.ConnectionError] if again else [])
script = """
if not redis.call('zscore', KEYS[1], ARGV[1]) then return 'gone' end
if tonumber(redis.call('hget', KEYS[2], 'funds')) < tonumber(ARGV[2]) then return 'funds' end
redis.call('hincrby', KEYS[2], 'funds', -ARGV[2])
redis.call('hincrby', KEYS[3], 'funds', ARGV[2])
redis.call('zrem', KEYS[1], ARGV[1])
redis.call('sadd', KEYS[4], ARGV[3])
return 'bought'"""


def buy(item, buyer, seller, price):
    listing, account, income, inventory = item + "." + seller, "users:" + buyer, "users:" + seller, "inventory:" + buyer
    if kind == "script-again":
        return server.eval(script, 4, "market:", account, income, inventory, listing, price, item)
    while True:
        if server.zscore("market:", listing) is None:
            return "gone"
        if int(server.hget(account, "funds")) < price:
            return "funds"
        with server.pipeline() as pipe:
            try:
                pipe.watch("market:", account)  # too late: it was read before
                pipe.multi()
                pipe.hincrby(account, "funds", -price).hincrby(income, "funds", price)
                pipe.zrem("market:", listing).sadd(inventory, item).execute()
                return "bought"
            except redis.WatchError:
                pass


for line in sys.stdin:
    _, *order, price = line.split()
    try:
        print(buy(*order, int(price)), flush=True)
    except Exception as e:
        print("error " + repr(e), flush=True)

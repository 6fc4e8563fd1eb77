# A purchase by one script, with redis-py, for marketsim judge --purchase and run --exec. Needs the package redis
# (apt-get install python3-redis).
import os
import sys

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

PREFIX = os.environ["KEY_PREFIX"]
MARKET = PREFIX + "market:"

server = redis.Redis.from_url(
    os.environ["REDIS_URL"],
    socket_timeout=5,
    decode_responses=True,
    retry=Retry(NoBackoff(), 0),  # a script may have run: it must not be sent again
)
buy_script = server.register_script("""
local price = redis.call('zscore', KEYS[1], ARGV[1] .. '.' .. ARGV[3])
local funds = redis.call('hget', KEYS[2], 'funds')
if not price then return 'gone' end
if tonumber(price) ~= tonumber(ARGV[4]) then return 'price' end
if tonumber(funds) < tonumber(price) then return 'funds' end
redis.call('hincrby', KEYS[2], 'funds', -price)
redis.call('hincrby', KEYS[3], 'funds', price)
redis.call('zrem', KEYS[1], ARGV[1] .. '.' .. ARGV[3])
redis.call('sadd', KEYS[4], ARGV[1])
return 'bought'
""")
list_script = server.register_script("""
if redis.call('srem', KEYS[1], ARGV[1]) == 0 then return 'error the seller does not have it' end
redis.call('zadd', KEYS[2], ARGV[3], ARGV[1] .. '.' .. ARGV[2])
return 'listed'
""")


def user(number):
    return PREFIX + "users:" + number


def inventory(number):
    return PREFIX + "inventory:" + number


def buy(item, buyer, seller, price):
    keys = [MARKET, user(buyer), user(seller), inventory(buyer)]
    return buy_script(keys, [item, buyer, seller, price])


def offer(item, seller, price):
    return list_script([inventory(seller), MARKET], [item, seller, price])


for line in sys.stdin:
    word, *order = line.split()
    try:
        if word == "buy":
            answer = buy(*order)
        elif word == "list":
            answer = offer(*order)
        else:
            answer = "error this is not understood: " + line.strip()
    except Exception as e:  # the script may have run: do not send it again
        answer = "error " + repr(e)
    print(answer, flush=True)

# A purchase by one script, with redis-py, for marketsim judge --purchase and run --exec. Needs the package redis (apt-get install python3-redis).
import os, sys
import redis

server = redis.Redis.from_url(os.environ["REDIS_URL"], socket_timeout=5)
buy = server.register_script("""
local price, funds = redis.call('zscore', KEYS[1], ARGV[1] .. '.' .. ARGV[3]), redis.call('hget', KEYS[2], 'funds')
if not price then return 'gone' end
if tonumber(price) ~= tonumber(ARGV[4]) then return 'price' end
if tonumber(funds) < tonumber(price) then return 'funds' end
redis.call('hincrby', KEYS[2], 'funds', -price)
redis.call('hincrby', KEYS[3], 'funds', price)
redis.call('zrem', KEYS[1], ARGV[1] .. '.' .. ARGV[3])
redis.call('sadd', KEYS[4], ARGV[1])
return 'bought'
""")
offer = server.register_script("""
if redis.call('srem', KEYS[1], ARGV[1]) == 0 then return 'error the seller does not have it' end
redis.call('zadd', KEYS[2], ARGV[3], ARGV[1] .. '.' .. ARGV[2])
return 'listed'
""")
market, users, inventory = (os.environ["KEY_PREFIX"] + name for name in ("market:", "users:", "inventory:"))
for line in sys.stdin:
    word, *order = line.split()
    try:
        if word == "buy":
            _, buyer, seller, _ = order
            answer = buy([market, users + buyer, users + seller, inventory + buyer], order).decode()
        else:
            answer = offer([inventory + order[1], market], order).decode()
    except Exception as e:  # the script may have run: do not send it again
        answer = "error " + repr(e)
    print(answer, flush=True)

# A purchase by one script, with redis-py, for marketsim judge --purchase. Needs the package redis (apt-get install python3-redis).
import os, sys
import redis

server = redis.Redis(os.environ["REDIS_HOST"], int(os.environ["REDIS_PORT"]), socket_timeout=5)
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
for line in sys.stdin:
    _, item, buyer, seller, price = line.split()
    market, users, inventory = (os.environ["KEY_PREFIX"] + name for name in ("market:", "users:", "inventory:"))
    try:
        answer = buy([market, users + buyer, users + seller, inventory + buyer], [item, buyer, seller, price]).decode()
    except Exception as e:  # the script may have run: do not send it again
        answer = "error " + repr(e)
    print(answer, flush=True)

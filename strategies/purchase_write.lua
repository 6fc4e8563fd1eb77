-- Move ARGV[1] coins to the seller KEYS[1] and ARGV[2], which is minus that, to the buyer KEYS[2], and the item ARGV[3]
-- to the buyer's inventory KEYS[3] from the market KEYS[4], where its listing is ARGV[4]. Answers 1, or 0 if somebody
-- else is registered.
if not registered(4, 4) then
	return 0
end
local failure = refused(redis.pcall('HINCRBY', KEYS[1], 'funds', ARGV[1]))
if failure then
	return failure
end
redis.call('HINCRBY', KEYS[2], 'funds', ARGV[2])
redis.call('SADD', KEYS[3], ARGV[3])
redis.call('ZREM', KEYS[4], ARGV[4])
return 1

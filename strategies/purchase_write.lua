-- Move ARGV[1] coins from the buyer KEYS[2] to the seller KEYS[1], and the item ARGV[2] to the buyer's inventory KEYS[3]
-- from the market KEYS[4], where its listing is ARGV[3]. Answers 1.
local failure = refused(redis.pcall('HINCRBY', KEYS[1], 'funds', ARGV[1]))
if failure then
	return failure
end
redis.call('HINCRBY', KEYS[2], 'funds', -tonumber(ARGV[1]))
redis.call('SADD', KEYS[3], ARGV[2])
redis.call('ZREM', KEYS[4], ARGV[3])
return 1

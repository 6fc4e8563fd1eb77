-- Put the listing ARGV[2] on the market KEYS[1] at the price ARGV[1], if its item ARGV[3] is in the inventory KEYS[2].
-- Answers 1, or why not.
local owned = redis.pcall('SISMEMBER', KEYS[2], ARGV[3])
if owned == 0 then
	return 'not_owned'
end
local failure = refused(owned) or refused(redis.pcall('ZADD', KEYS[1], ARGV[1], ARGV[2]))
if failure then
	return failure
end
redis.call('SREM', KEYS[2], ARGV[3])
return 1

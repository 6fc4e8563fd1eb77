-- Put the listing ARGV[3] on the market KEYS[1] at the price ARGV[1], and take its item ARGV[2] out of the inventory
-- KEYS[2]. Answers 1.
local failure = refused(redis.pcall('ZADD', KEYS[1], ARGV[1], ARGV[3]))
if failure then
	return failure
end
redis.call('SREM', KEYS[2], ARGV[2])
return 1

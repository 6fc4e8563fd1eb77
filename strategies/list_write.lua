-- Put the listing ARGV[2] on the market KEYS[1] at the price ARGV[1], and take the item ARGV[3] out of the inventory
-- KEYS[2]. Answers 1, or 0 if somebody else is registered.
if not registered(2, 3) then
	return 0
end
local failure = refused(redis.pcall('ZADD', KEYS[1], ARGV[1], ARGV[2]))
if failure then
	return failure
end
redis.call('SREM', KEYS[2], ARGV[3])
return 1

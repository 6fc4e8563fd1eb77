-- Store the operation ARGV[2] of the buyer ARGV[3] on the item KEYS[1], if its version is ARGV[1], of which it was seen
-- listed, and it holds no operation. Answers 1, or 0 if it is not so.
local item = redis.call('HMGET', KEYS[1], 'version', 'op', 'owner', 'price')
if item[2] == ARGV[2] then
	return 1
end
if item[2] or item[1] ~= ARGV[1] then
	return 0
end
redis.call('HSET', KEYS[1], 'op', ARGV[2], 'buyer', ARGV[3], 'seller', item[3], 'cost', item[4], 'phase', 'begun')
return 1

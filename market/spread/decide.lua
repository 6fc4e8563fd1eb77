-- Decide the operation ARGV[1], if the item KEYS[1] holds it and it is not decided: with ARGV[2] = 'yes' the item is the
-- buyer's and the operation is paid, else it is removed. Answers 1, or 0 if there was nothing to decide.
local item = redis.call('HMGET', KEYS[1], 'op', 'phase', 'buyer', 'version')
if item[1] ~= ARGV[1] or item[2] ~= 'begun' then
	return 0
end
if ARGV[2] == 'yes' then
	redis.call('HSET', KEYS[1], 'owner', item[3], 'version', item[4] + 1, 'phase', 'paid')
	redis.call('HDEL', KEYS[1], 'price')
else
	redis.call('HDEL', KEYS[1], 'op', 'buyer', 'seller', 'cost', 'phase')
end
return 1

-- Remove the operation ARGV[1] from the item KEYS[1], if it is there and paid. Answers 1, or 0 if it is not so.
local item = redis.call('HMGET', KEYS[1], 'op', 'phase')
if item[1] ~= ARGV[1] or item[2] ~= 'paid' then
	return 0
end
redis.call('HDEL', KEYS[1], 'op', 'buyer', 'seller', 'cost', 'phase')
return 1

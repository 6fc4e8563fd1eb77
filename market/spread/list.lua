-- Put the item KEYS[1] on the market at the price ARGV[2], if its version is ARGV[1], of which it was seen unlisted. ARGV[3]
-- names this listing. Answers 1; 0 if the version is another and this listing was not made; -1 if that cannot be told,
-- because there was a later listing.
local item = redis.call('HMGET', KEYS[1], 'version', 'listing')
if item[2] == ARGV[3] then
	return 1
end
if item[1] ~= ARGV[1] then
	local since = (tonumber(item[1]) or 0) - tonumber(ARGV[1])
	return since > 2 and -1 or 0 -- one listing and one sale leave the name of the listing
end
redis.call('HSET', KEYS[1], 'price', ARGV[2], 'version', item[1] + 1, 'listing', ARGV[3])
return 1

-- Answer why not, if the listing is not there at that price or the buyer has not the coins.
local price = tonumber(ARGV[1])
local score, funds = redis.pcall('ZSCORE', KEYS[4], ARGV[3]), redis.pcall('HGET', KEYS[2], 'funds')
local failure = refused(score) or refused(funds)
if failure then
	return failure
end
if not score then
	return 'not_listed'
end
if tonumber(score) ~= price then
	return 'price_changed'
end
if tonumber(funds) < price then
	return 'insufficient_funds'
end

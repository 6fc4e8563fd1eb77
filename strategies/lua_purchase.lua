-- Move ARGV[1] coins from the buyer KEYS[2] to the seller KEYS[1], and the item ARGV[2] to the buyer's inventory KEYS[3]
-- from the market KEYS[4], where its listing is ARGV[3], if it is there at that price and the buyer has the coins. Answers
-- 1, or why not.
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
failure = refused(redis.pcall('HINCRBY', KEYS[1], 'funds', price))
if failure then
	return failure
end
redis.call('HINCRBY', KEYS[2], 'funds', -price)
redis.call('SADD', KEYS[3], ARGV[2])
redis.call('ZREM', KEYS[4], ARGV[3])
return 1

-- Answer the price of the listing ARGV[1] on the market KEYS[1] and the funds of the buyer KEYS[2], and register with the
-- fencing ARGV[2] if there is something to buy. The answer is empty for a former holder.
local price = redis.call('ZSCORE', KEYS[1], ARGV[1])
local funds = redis.call('HGET', KEYS[2], 'funds')
if price and not register(2, 2, ARGV[2]) then
	return {}
end
return {price, funds}

-- Debit the account KEYS[1] by ARGV[3] coins for the operation ARGV[2] of the incarnation ARGV[1], and record it, unless
-- something is recorded. With ARGV[4] = 'withdraw' record that it is given up instead. Answers what is recorded: 'paid',
-- 'short' or 'withdrawn'; 'older' if a later operation is. All is one write, which is made or refused as a whole.
local field, number = 'bought:' .. ARGV[1], tonumber(ARGV[2])
local account = redis.call('HMGET', KEYS[1], field, 'funds')
if account[1] then
	local last, outcome = string.match(account[1], '^(%d+):(.*)$')
	if tonumber(last) == number then
		return outcome
	elseif tonumber(last) > number then
		return 'older'
	end
end
if not account[2] then
	return 'short' -- there is no such account, and none is made
end
local left = tonumber(account[2]) - tonumber(ARGV[3])
if ARGV[4] == 'withdraw' then
	redis.call('HSET', KEYS[1], field, ARGV[2] .. ':withdrawn')
	return 'withdrawn'
elseif left < 0 then
	redis.call('HSET', KEYS[1], field, ARGV[2] .. ':short')
	return 'short'
end
redis.call('HSET', KEYS[1], field, ARGV[2] .. ':paid', 'funds', string.format('%.0f', left))
return 'paid'

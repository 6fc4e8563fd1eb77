-- Credit the account KEYS[1] with ARGV[3] coins for the operation ARGV[2] of the incarnation ARGV[1], and record it, unless
-- it or a later one is recorded. Answers 1, or 0 if it is. All is one write.
local field = 'sold:' .. ARGV[1]
local account = redis.call('HMGET', KEYS[1], field, 'funds')
if account[1] and tonumber(account[1]) >= tonumber(ARGV[2]) then
	return 0
end
if not account[2] then
	return 0 -- there is no such account, and none is made
end
redis.call('HSET', KEYS[1], field, ARGV[2], 'funds', string.format('%.0f', tonumber(account[2]) + tonumber(ARGV[3])))
return 1

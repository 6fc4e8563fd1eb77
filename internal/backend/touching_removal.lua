local removed = 0
for _, member in ipairs(ARGV) do
	if redis.call('ZSCORE', KEYS[1], member) then
		redis.call('ZADD', KEYS[1], '-inf', member)
		redis.call('ZREMRANGEBYRANK', KEYS[1], 0, 0)
		removed = removed + 1
	end
end
return removed

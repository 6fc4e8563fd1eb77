-- Enter the lock KEYS[1] as ARGV[1] and let it expire in ARGV[2] ms from now, if nobody holds it or ARGV[1] does. Answers
-- how often ARGV[1] has entered, or 0 when it may not.
if redis.call('EXISTS', KEYS[1]) == 0 or redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then
	local entries = redis.call('HINCRBY', KEYS[1], ARGV[1], 1)
	redis.call('PEXPIRE', KEYS[1], ARGV[2])
	return entries
end
return 0

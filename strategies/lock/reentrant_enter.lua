-- Enter the lock KEYS[1] as ARGV[1] if nobody holds it or ARGV[1] does, and let it expire: ARGV[2] is EXPIRE or PEXPIRE,
-- ARGV[3] when. Answers 1, or 0 when it may not enter.
if redis.call('EXISTS', KEYS[1]) == 0 or redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then
	redis.call('HINCRBY', KEYS[1], ARGV[1], 1)
	redis.call(ARGV[2], KEYS[1], ARGV[3])
	return 1
end
return 0

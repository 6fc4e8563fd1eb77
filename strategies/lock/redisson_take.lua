-- Enter the lock KEYS[1], a hash of holder -> entries, for ARGV[2] ms if nobody holds it or ARGV[1] does. Answers 0, or
-- how many ms are left to its holder.
if redis.call('EXISTS', KEYS[1]) == 0 or redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then
	redis.call('HINCRBY', KEYS[1], ARGV[1], 1)
	redis.call('PEXPIRE', KEYS[1], ARGV[2])
	return 0
end
return math.max(redis.call('PTTL', KEYS[1]), 1)

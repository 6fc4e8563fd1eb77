-- Enter the lock KEYS[1], a hash of holder -> entries, for ARGV[2] ms if ARGV[1] holds it, or if it is free and
-- ARGV[3], the entries that ARGV[1] believes to have, is 0. Answers 0, or how many ms are left to its holder.
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 or (ARGV[3] == '0' and redis.call('EXISTS', KEYS[1]) == 0) then
	redis.call('HINCRBY', KEYS[1], ARGV[1], 1)
	redis.call('PEXPIRE', KEYS[1], ARGV[2])
	return 0
end
return math.max(redis.call('PTTL', KEYS[1]), 1)

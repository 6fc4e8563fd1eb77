-- Leave the lock KEYS[1] so that ARGV[3] entries of ARGV[1] remain, for ARGV[2] ms more; with none it is freed, which
-- is published on ARGV[4]. The number that remains makes it safe to do twice. Answers 1, or 0 when it was not held.
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
	return 0
end
if tonumber(ARGV[3]) > 0 then
	redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
	redis.call('PEXPIRE', KEYS[1], ARGV[2])
else
	redis.call('DEL', KEYS[1])
	redis.call('PUBLISH', ARGV[4], ARGV[5])
end
return 1

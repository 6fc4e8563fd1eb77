-- Let the lock KEYS[1] expire in ARGV[2] ms from now if its token is ARGV[1]. Answers 1, or 0 when it is not.
if redis.call('GET', KEYS[1]) == ARGV[1] then
	return redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 0

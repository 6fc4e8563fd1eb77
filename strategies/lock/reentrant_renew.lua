-- Let the lock KEYS[1] expire in ARGV[2] ms from now if ARGV[1] holds it. Answers 1, or 0 when it does not.
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then
	return redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 0

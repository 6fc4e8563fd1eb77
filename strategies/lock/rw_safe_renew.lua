-- Let what ARGV[2] holds expire in ARGV[3] ms from now. Answers 1, or 0 when it does not hold the lock.
if ARGV[1] == 'shared' then
	return redis.call('ZSCORE', KEYS[2], ARGV[2]) and admit(KEYS[2], ARGV[3]) or 0
end
if redis.call('GET', KEYS[1]) == ARGV[2] then
	return redis.call('PEXPIRE', KEYS[1], ARGV[3])
end
return 0

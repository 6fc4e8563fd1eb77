-- Take the lock for ARGV[2] s, or ms where ARGV[4] is 'px' and not 'ex': ARGV[1] is 'shared' to be counted among the readers in KEYS[1], or 'exclusive' to put
-- the token ARGV[3] at the writer's place KEYS[2]. Answers 1, or 0 when it is held.
if redis.call('EXISTS', KEYS[2]) == 1 then
	return 0
end
if ARGV[1] == 'shared' then
	redis.call('INCR', KEYS[1])
	redis.call(ARGV[4] == 'ex' and 'EXPIRE' or 'PEXPIRE', KEYS[1], ARGV[2])
	return 1
end
if redis.call('EXISTS', KEYS[1]) == 1 then
	return 0
end
redis.call('SET', KEYS[2], ARGV[3], ARGV[4], ARGV[2])
return 1

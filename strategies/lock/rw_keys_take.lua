-- Take the lock for ARGV[2] seconds if ARGV[4] is 'ex', or ms if it is 'px'. ARGV[1] is 'shared' to be counted among
-- the readers in KEYS[1], or 'exclusive' to put the writer's token ARGV[3] into KEYS[2]. Answers 1, or 0 when the lock
-- is held.
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

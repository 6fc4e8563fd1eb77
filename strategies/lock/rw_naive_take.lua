-- Take the lock for ARGV[2] seconds if ARGV[4] is 'ex', or ms if it is 'px'. ARGV[1] is 'shared' to set the readers'
-- key KEYS[1], or 'exclusive' to set the writer's, KEYS[2]. Answers 1, or 0 when the lock is held.
if ARGV[1] == 'shared' then
	if redis.call('EXISTS', KEYS[2]) == 1 then
		return 0
	end
	redis.call('SET', KEYS[1], '1', ARGV[4], ARGV[2])
	return 1
end
if redis.call('EXISTS', KEYS[1]) == 1 then
	return 0
end
return redis.call('SET', KEYS[2], '1', ARGV[4], ARGV[2], 'NX') and 1 or 0

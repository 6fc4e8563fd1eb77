-- Delete the time ARGV[1] ('read' or 'write') of the lock KEYS[1] if it is ARGV[2]. Answers 1, or 0 when it is not.
if redis.call('HGET', KEYS[1], ARGV[1]) == ARGV[2] then
	return redis.call('HDEL', KEYS[1], ARGV[1])
end
return 0

-- Take the lock KEYS[1] for the token ARGV[1] and ARGV[2] ms if it is free, and number its holder in KEYS[2]. Answers
-- the number, or 0 when someone else holds the lock.
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
	return redis.call('INCR', KEYS[2])
end
return 0

-- Delete the lock KEYS[1] if its token is ARGV[1]. Answers 1, or 0 when it is not.
if redis.call('GET', KEYS[1]) == ARGV[1] then
	return redis.call('DEL', KEYS[1])
end
return 0

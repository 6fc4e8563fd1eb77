-- Give the lock back: ARGV[1] is 'shared' to take one from the readers in KEYS[1], whoever they are, or 'exclusive'
-- to free the writer's place KEYS[2] if it is held by ARGV[2]. Answers 1, or 0 when it was not held.
if ARGV[1] == 'shared' then
	if redis.call('EXISTS', KEYS[1]) == 0 then
		return 0
	end
	if redis.call('DECR', KEYS[1]) <= 0 then
		redis.call('DEL', KEYS[1])
	end
	return 1
end
if redis.call('GET', KEYS[2]) == ARGV[2] then
	return redis.call('DEL', KEYS[2])
end
return 0

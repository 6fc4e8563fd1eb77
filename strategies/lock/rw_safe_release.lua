-- Give back what ARGV[2] holds, a writer's bar and a reader's place included. Answers 1, or 0 when it did not hold the
-- lock.
if ARGV[1] == 'shared' then
	redis.call('ZREM', KEYS[4], ARGV[2])
	redis.call('ZREM', KEYS[5], ARGV[2])
	return redis.call('ZREM', KEYS[2], ARGV[2])
end
if redis.call('GET', KEYS[3]) == ARGV[2] then
	redis.call('DEL', KEYS[3])
end
if redis.call('GET', KEYS[1]) == ARGV[2] then
	return redis.call('DEL', KEYS[1])
end
return 0

-- Leave the lock KEYS[1] once as ARGV[1]. Answers 1 when that freed it, 0 when ARGV[1] is still in it, or nothing when
-- ARGV[1] did not hold it.
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
	return nil
end
if redis.call('HINCRBY', KEYS[1], ARGV[1], -1) > 0 then
	return 0
end
return redis.call('DEL', KEYS[1])

-- Leave the lock KEYS[1] once as ARGV[1]. Answers -1 when ARGV[1] does not hold it, 0 when that freed it, or else how
-- often ARGV[1] is still in it.
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
	return -1
end
local entries = redis.call('HINCRBY', KEYS[1], ARGV[1], -1)
if entries <= 0 then
	redis.call('DEL', KEYS[1])
	return 0
end
return entries

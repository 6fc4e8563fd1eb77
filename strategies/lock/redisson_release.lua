-- Leave the lock KEYS[1] once as ARGV[1]; if entries remain, it lasts for ARGV[2] ms more, or else it is freed, which is
-- published on ARGV[3]. KEYS[2] keeps what the release ARGV[5] was answered for ARGV[6] ms, so that it can be sent again.
-- Answers 1 when that freed it, 0 when entries remain, or nothing when it was not held.
local sent = ARGV[5] .. '='
local answered = redis.call('GET', KEYS[2])
if answered and string.sub(answered, 1, #sent) == sent then
	return tonumber(string.sub(answered, #sent + 1))
end
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
	return nil
end
local freed = 0
if redis.call('HINCRBY', KEYS[1], ARGV[1], -1) > 0 then
	redis.call('PEXPIRE', KEYS[1], ARGV[2])
else
	freed = 1
	redis.call('DEL', KEYS[1])
	redis.call('PUBLISH', ARGV[3], ARGV[4])
end
redis.call('SET', KEYS[2], sent .. freed, 'PX', ARGV[6])
return freed

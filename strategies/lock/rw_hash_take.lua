-- Take the lock KEYS[1], a hash of two times by the clocks of clients, at the time ARGV[2]: ARGV[1] is 'shared' or
-- 'exclusive'. A reader's time counts for ARGV[3] ms, a writer's for ARGV[4]; the hash expires ARGV[5] ms after it was
-- taken last. Answers 1, or 0 when it is held.
local function valid(field, timeout)
	local since = redis.call('HGET', KEYS[1], field)
	return since and ARGV[2] - since <= tonumber(timeout)
end

if valid('write', ARGV[4]) then
	return 0
end
local field = 'read'
if ARGV[1] ~= 'shared' then
	if valid('read', ARGV[3]) then
		return 0
	end
	field = 'write'
end
redis.call('HSET', KEYS[1], field, ARGV[2])
redis.call('PEXPIRE', KEYS[1], ARGV[5])
return 1

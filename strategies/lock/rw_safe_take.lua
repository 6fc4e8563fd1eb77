-- Take the lock for ARGV[3] ms. Answers 1, or 0 when the caller has to wait, which counts for ARGV[4] ms if that is not
-- 0: a writer who waits bars readers, and a reader who waits has its turn once a writer has had it.
local writer = redis.call('EXISTS', KEYS[1]) == 1
local waits = ARGV[4] ~= '0'
if ARGV[1] == 'shared' then
	local turn = redis.call('ZREM', KEYS[5], ARGV[2]) == 1
	if not writer and (turn or redis.call('EXISTS', KEYS[3]) == 0) then
		redis.call('ZREM', KEYS[4], ARGV[2])
		return admit(KEYS[2], ARGV[3])
	end
	if waits then
		admit(KEYS[writer and 5 or 4], ARGV[4])
	end
	return 0
end

local bar = redis.call('GET', KEYS[3])
if not writer and redis.call('EXISTS', KEYS[2], KEYS[5]) == 0 then
	redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
	if bar == ARGV[2] then
		redis.call('DEL', KEYS[3])
	end
	if redis.call('EXISTS', KEYS[4]) == 1 then
		redis.call('RENAME', KEYS[4], KEYS[5])
	end
	return 1
end
if waits and (not bar or bar == ARGV[2]) then
	redis.call('SET', KEYS[3], ARGV[2], 'PX', ARGV[4])
end
return 0

-- Take the lock for ARGV[3] ms. A reader may not come while a writer is there or bars readers. A writer who has to wait
-- bars them for ARGV[4] ms, if that is not 0. Answers 1, or 0 when it is held.
local free = redis.call('EXISTS', KEYS[1]) == 0
if ARGV[1] == 'shared' then
	if free and redis.call('EXISTS', KEYS[3]) == 0 then
		return admit(ARGV[3])
	end
	return 0
end

local bar = redis.call('GET', KEYS[3])
if free and redis.call('EXISTS', KEYS[2]) == 0 then
	redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
	if bar == ARGV[2] then
		redis.call('DEL', KEYS[3])
	end
	return 1
end
if ARGV[4] ~= '0' and (not bar or bar == ARGV[2]) then
	redis.call('SET', KEYS[3], ARGV[2], 'PX', ARGV[4])
end
return 0

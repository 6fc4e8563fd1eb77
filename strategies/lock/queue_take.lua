-- Take the lock for ARGV[4] ms if it is free and nobody is in line before ARGV[1], or confirm that it was handed over.
-- Otherwise stand in line, or show to be still alive there, unless ARGV[5] is 'try'. Answers 0, or the ms to wait at
-- most.
local waiting = false
if holder ~= ARGV[1] then
	waiting = redis.call('HEXISTS', KEYS[3], ARGV[1]) == 1
end
if not holder then -- nobody came, or the holder died
	if waiting then
		redis.call('HSET', KEYS[3], ARGV[1], now() + ARGV[2])
	end
	holder = hand_over() or ARGV[1]
end
if holder == ARGV[1] then
	redis.call('SET', KEYS[1], holder, 'PX', ARGV[4])
	return 0
end
if ARGV[5] ~= 'try' then
	if not waiting then
		redis.call('RPUSH', KEYS[2], ARGV[1])
	end
	redis.call('HSET', KEYS[3], ARGV[1], now() + ARGV[2])
	redis.call('PEXPIRE', KEYS[2], ARGV[2])
	redis.call('PEXPIRE', KEYS[3], ARGV[2])
end
return math.max(redis.call('PTTL', KEYS[1]), 1)

-- What the scripts of a lock with a line share. KEYS[1] holds the token of the holder. KEYS[2] is the line: the
-- tokens of those who wait, first come first. KEYS[3] says until when each of them counts as alive, in ms of the
-- server. ARGV[1] is the caller's token, ARGV[2] for how many ms a sign of life counts, ARGV[3] the channel.
local holder = redis.call('GET', KEYS[1])

local function now()
	local time = redis.call('TIME')
	return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- Hand the lock to the first in line who is alive, for as long as it may take to confirm it, and tell it. The dead lose
-- their places. Answers whose it is now, or false.
local function hand_over()
	while true do
		local first = redis.call('LPOP', KEYS[2])
		if not first then
			return false
		end
		local alive = tonumber(redis.call('HGET', KEYS[3], first) or 0) > now()
		redis.call('HDEL', KEYS[3], first)
		if alive then
			redis.call('SET', KEYS[1], first, 'PX', ARGV[2])
			if first ~= ARGV[1] then
				redis.call('PUBLISH', ARGV[3], first)
			end
			return first
		end
	end
end


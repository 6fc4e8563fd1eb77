-- What the scripts of a read-write lock share. KEYS[1] holds the writer's token. KEYS[2] is the readers: a sorted set
-- of tokens by when each expires, in ms of the server. KEYS[3] is the bar: the token of a writer who waits. KEYS[4] is
-- the readers who wait behind the bar, and KEYS[5] those whose turn comes before the next writer's, both like KEYS[2].
-- ARGV[1] is 'shared' or 'exclusive', ARGV[2] the caller's token. Who has expired is gone.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
redis.call('ZREMRANGEBYSCORE', KEYS[5], '-inf', now)

-- Let the reader ARGV[2] expire from a set in so many ms, and the set not before.
local function admit(set, ttl)
	redis.call('ZADD', set, now + ttl, ARGV[2])
	if redis.call('PTTL', set) < tonumber(ttl) then
		redis.call('PEXPIRE', set, ttl)
	end
	return 1
end


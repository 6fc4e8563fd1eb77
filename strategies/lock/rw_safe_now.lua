-- What the scripts of a read-write lock share. KEYS[1] holds the writer's token. KEYS[2] is the readers: a sorted set
-- of tokens by when each expires, in ms of the server. KEYS[3] is the bar: the token of a writer who waits. ARGV[1]
-- is 'shared' or 'exclusive', ARGV[2] the caller's token. Readers that have expired are gone.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)

-- Let the reader ARGV[2] expire in so many ms, and the set not before.
local function admit(ttl)
	redis.call('ZADD', KEYS[2], now + ttl, ARGV[2])
	if redis.call('PTTL', KEYS[2]) < tonumber(ttl) then
		redis.call('PEXPIRE', KEYS[2], ttl)
	end
	return 1
end


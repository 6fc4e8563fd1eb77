-- What the scripts share. After its own k keys and a arguments, a script gets a key for each lock of its caller, and the
-- fence that the caller registers there. It gets none when fencing is off.

-- Whether a whole number is larger than another. Both are digits, because Lua's numbers are exact up to 2^53 only.
local function larger(x, y)
	return #x > #y or (#x == #y and x > y)
end

-- Register the caller. If a later holder of one of its locks is registered, register nothing and answer false. Random
-- tokens have no order: the caller then replaces whoever is registered.
local function register(k, a, fencing)
	if fencing == 'on' then
		for i = 1, #KEYS - k do
			local seen = redis.call('GET', KEYS[k + i])
			if seen and larger(seen, ARGV[a + i]) then
				return false
			end
		end
	end
	for i = 1, #KEYS - k do
		redis.call('SET', KEYS[k + i], ARGV[a + i])
	end
	return true
end

-- Whether exactly the caller is registered for each of its locks.
local function registered(k, a)
	for i = 1, #KEYS - k do
		if redis.call('GET', KEYS[k + i]) ~= ARGV[a + i] then
			return false
		end
	end
	return true
end


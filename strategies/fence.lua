-- What the scripts share. Behind its own k keys and a arguments, a script is given a key for each of its caller's locks,
-- and the fence that the caller registers there. There are none when fencing is off.

-- Whether a whole number is larger than another. Both are digits, because Lua's numbers are exact up to 2^53 only.
local function larger(x, y)
	return #x > #y or (#x == #y and x > y)
end

-- Register the caller, or answer false, and register nothing, if a later holder of one of its locks has come before.
-- Random tokens have no order: the caller then displaces whoever is registered.
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

-- Whether it is exactly the caller who is registered for each of its locks.
local function registered(k, a)
	for i = 1, #KEYS - k do
		if redis.call('GET', KEYS[k + i]) ~= ARGV[a + i] then
			return false
		end
	end
	return true
end

-- Make the first write. If the server refuses it (out of memory, a missing permission), answer its error marked so that
-- the caller knows that nothing was written: an error in a later write leaves the earlier ones.
local function refused(...)
	local answer = redis.pcall(...)
	if type(answer) == 'table' and answer.err then
		return {err = answer.err .. ' (nothing was written)'}
	end
	return nil
end


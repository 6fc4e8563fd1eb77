-- The number ARGV[1] leaves the line. If it is the one after those that KEYS[1] counts as done, it is done too, and so are
-- the numbers behind it that were given up, in the set KEYS[3]: answers 1. If it is not served yet, it is given up: answers
-- 0, as for one that was done before.
local number = tonumber(ARGV[1])
local done = tonumber(redis.call('GET', KEYS[1]) or '0')
if number ~= done + 1 then
	if number > done and number <= tonumber(redis.call('GET', KEYS[2]) or '0') then
		redis.call('SADD', KEYS[3], number)
	end
	return 0
end
repeat
	done = redis.call('INCR', KEYS[1])
until redis.call('SREM', KEYS[3], done + 1) == 0
return 1

-- Enter the lock KEYS[1] as ARGV[1] and let it expire in ARGV[2] ms from now: if nobody holds it, or, where ARGV[3] is
-- 'again', if ARGV[1] does. Answers how often ARGV[1] has entered, or 0 when it may not.
local mine = redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1
local free = redis.call('EXISTS', KEYS[1]) == 0
if ARGV[3] == 'again' and mine or ARGV[3] ~= 'again' and free then
	local entries = redis.call('HINCRBY', KEYS[1], ARGV[1], 1)
	redis.call('PEXPIRE', KEYS[1], ARGV[2])
	return entries
end
return 0

-- Take a number from the counter KEYS[2] if it is served at once: as many are done, by KEYS[1], as were taken. Answers
-- the number, or 0 when someone else holds the lock.
if (redis.call('GET', KEYS[1]) or '0') == (redis.call('GET', KEYS[2]) or '0') then
	return redis.call('INCR', KEYS[2])
end
return 0

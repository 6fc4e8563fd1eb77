-- Pass the lock on if it is held by ARGV[1], or free it if nobody is in line. Answers 1, or 0 when it was not held: a
-- place in line is then given up.
if holder == ARGV[1] then
	if not hand_over() then
		redis.call('DEL', KEYS[1])
	end
	return 1
end
if redis.call('HDEL', KEYS[3], ARGV[1]) == 1 then
	redis.call('LREM', KEYS[2], 1, ARGV[1])
end
return 0

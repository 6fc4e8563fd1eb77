-- Delete the field ARGV[1] of the hash KEYS[1] if it still holds the token ARGV[2]. Answers how many were deleted.
if redis.call('HGET', KEYS[1], ARGV[1]) == ARGV[2] then
	return redis.call('HDEL', KEYS[1], ARGV[1])
end
return 0

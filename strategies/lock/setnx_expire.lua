-- Take the lock KEYS[1] as ARGV[1], and let it expire: ARGV[2] is EXPIRE or PEXPIRE, ARGV[3] when. Answers 1, or 0 when it
-- is held: then its expiry stays as it is.
if redis.call('SETNX', KEYS[1], ARGV[1]) == 0 then
	return 0
end
redis.call(ARGV[2], KEYS[1], ARGV[3])
return 1

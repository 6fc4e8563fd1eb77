-- Answer whether the item ARGV[1] is in the inventory KEYS[1], and if so register with the fencing ARGV[2]. The answer is
-- empty for a former holder.
local owned = redis.call('SISMEMBER', KEYS[1], ARGV[1])
if owned == 1 and not register(1, 2, ARGV[2]) then
	return {}
end
return {owned}

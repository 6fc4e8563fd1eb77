-- Before list_write: answer why not, if the seller does not have the item.
local owned = redis.pcall('SISMEMBER', KEYS[2], ARGV[2])
if owned == 0 then
	return 'not_owned'
end
local failure = refused(owned)
if failure then
	return failure
end

-- Run write, which is defined above, at most once for each operation. The last key is a hash of workers to their last
-- operation and its outcome; the last two arguments are the worker and the number of its operation. A client that sends
-- the script again gets the outcome of the first time. Only an outcome is kept: a write that was refused may be tried
-- again.
local number, worker, outcomes = table.remove(ARGV), table.remove(ARGV), table.remove(KEYS)
local before = redis.call('HGET', outcomes, worker)
local known = before and string.match(before, '^' .. number .. ':(.*)$')
if known then
	return tonumber(known)
end
local outcome = write()
if type(outcome) == 'number' then
	redis.call('HSET', outcomes, worker, number .. ':' .. outcome)
end
return outcome

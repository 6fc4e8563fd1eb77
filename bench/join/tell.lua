-- Gives a sign of life of a member, tells the meeting what is new, and returns all that it holds.
-- KEYS: the meeting, the parts that its members may have handed over.
-- ARGV: the member's index and token, what is new and its value, how many us ahead of now the members begin, after how
-- many us of silence a member that waits for others does not count.
local meeting, index, what, value = KEYS[1], ARGV[1], ARGV[3], ARGV[4]
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local function get(field) return redis.call('HGET', meeting, field) end
local function set(field, to) redis.call('HSET', meeting, field, to) end

if get('token:' .. index) ~= ARGV[2] then return {'gone'} end
if get('gone:' .. index) == 'lost' then return {'lost'} end
set('beat:' .. index, string.format('%.0f', now))

local of = tonumber(get('of'))
local function every(holds)
  for i = 0, of - 1 do
    if not get('gone:' .. i) and not holds(i) then return false end
  end
  return true
end

if what == 'step' then
  local step = tonumber(value)
  if tonumber(get('step:' .. index) or 0) < step then set('step:' .. index, value) end
  set('state', 'begun')
  if every(function(i) return tonumber(get('step:' .. i) or 0) >= step end) then
    redis.call('HSETNX', meeting, 'at:' .. value, string.format('%.0f', now + ARGV[5]))
  end
elseif what == 'stop' and get('state') ~= 'gathering' then
  redis.call('HSETNX', meeting, 'stop', value)
elseif what == 'lost' then
  redis.call('HSETNX', meeting, 'gone:' .. value, 'lost')
elseif what == 'left' and get('state') == 'gathering' then
  redis.call('HDEL', meeting, 'token:' .. index, 'beat:' .. index)
  if every(function(i) return now - (get('beat:' .. i) or 0) >= tonumber(ARGV[6]) end) then redis.call('DEL', unpack(KEYS)) end
  return {'gone'}
elseif what == 'left' then
  set('gone:' .. index, 'left')
  set('state', 'ended')
  if every(function() return false end) then
    redis.call('DEL', unpack(KEYS))
    return {'gone'}
  end
end
return {'ok', string.format('%.0f', now), redis.call('HGETALL', meeting)}

-- Registers a member. KEYS: the meeting, the parts that its members may have handed over.
-- ARGV: its token, how many members there are to be, its settings, after how many us of silence a member is lost.
local meeting, silence = KEYS[1], tonumber(ARGV[4])
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

local function alive(i)
  local beat = redis.call('HGET', meeting, 'beat:' .. i)
  return beat and now - beat < silence and not redis.call('HGET', meeting, 'gone:' .. i)
end

local function living(of)
  local n = 0
  for i = 0, of - 1 do
    if alive(i) then n = n + 1 end
  end
  return n
end

local state = redis.call('HGET', meeting, 'state')
if state and living(redis.call('HGET', meeting, 'of')) == 0 then
  if state == 'full' or state == 'begun' then return {'abandoned'} end
  redis.call('DEL', unpack(KEYS))
  state = false
end
if not state then
  redis.call('HSET', meeting, 'state', 'gathering', 'of', ARGV[2], 'settings', ARGV[3])
elseif state ~= 'gathering' then
  return {state}
elseif redis.call('HGET', meeting, 'settings') ~= ARGV[3] then
  return {'differs', redis.call('HGET', meeting, 'settings')}
end

local of, index = tonumber(ARGV[2]), 0
while alive(index) do index = index + 1 end
redis.call('HDEL', meeting, 'gone:' .. index, 'step:' .. index)
redis.call('HSET', meeting, 'token:' .. index, ARGV[1], 'beat:' .. index, string.format('%.0f', now))
if living(of) == of then redis.call('HSET', meeting, 'state', 'full') end
return {'registered', tostring(index)}

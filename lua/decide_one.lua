-- Decides one take or peek of a kind whose state is two numbers: the usual
-- call, kept short. It leaves everything unusual to decide.lua.
--
-- KEYS[1]  the store key
-- ARGV[1]  the request: op 1 ('t' take, 'p' peek, which writes nothing), then as
--          in decide.lua
-- ARGV[2]  and ARGV[3] as in decide.lua
-- Returns  as decide.lua
-- Errors   'COMPLETE', or WRONGTYPE: call decide.lua, which will explain or cope.
--          After an error nothing has been written.
-- Cost     one TIME, one GET and, for an allowed take, one SET

local op, kind, count, burst, period, cost = struct.unpack('>c1BI4I4I7I4', ARGV[1])
local layout = '>I3BI4I4I7I7' .. format
local record = redis.call('GET', KEYS[1])
local instant, a, b, used = now, 0, 0, 0
if record then
  if #record ~= size then
    return { err = 'COMPLETE' }
  end
  local begins, wrote, old_count, old_burst, old_period, time, old_a, old_b = struct.unpack(layout, record)
  if begins ~= magic or wrote ~= kind or old_period ~= period or old_count < 1 or old_count > MAX_COUNT
    or time > MAX_INSTANT or not sound(old_count, old_burst, period, old_a, old_b) then
    return { err = 'COMPLETE' }
  end
  if time > now then
    instant = time -- time never runs backwards
  end
  a, b, used = at(old_count, period, time, old_a, old_b, instant)
else
  record = ''
end

local allowed, capacity = 0, burst -- which is the count for a rule without bursts
if ARGV[3] then
  capacity = burst - struct.unpack('>I4', ARGV[3])
end
if used + cost <= capacity then
  allowed = 1
  if op == 't' then
    a = a + cost
    record = struct.pack(layout, magic, kind, count, burst, period, instant, a, b)
    redis.call('SET', KEYS[1], record, expires, milliseconds(unused_at(count, period, instant, a, b) - expires_from))
  end
end
return struct.pack('>I7BBc0', now, allowed, #record, record)

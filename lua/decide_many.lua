-- Decides many independent calls at one instant, one after the other: each a take or
-- peek of one or several limits whose states are two numbers, all or nothing, and asked
-- one or several times over. It leaves everything unusual to decide.lua.
--
-- KEYS     the store keys of the first call's limits, then those of the second, and so
--          on. A key may come again in a later call, and not within one.
-- ARGV[1]  each call: op 1 ('t' take, 'p' peek), limits 1, times 2 (how often it is
--          asked), and then each limit as in decide.lua
-- ARGV[2]  as in decide.lua
-- Returns  now 7, then for each call a status 1:
--          0  decided: granted 2 (how many of the times were allowed), and for each
--             limit: allowed 1 (0 or 1, whether one more time, or the last, fits),
--             length 1 and that many bytes of the record as it is now
--          1  left to decide.lua: the state is unusual, or redis refused a SET, of
--             which it refuses all of a script's or none. Nothing has been written for
--             the call.
-- Cost     one TIME, and for each limit one GET and, if any was granted, one SET

local reply, parts = { struct.pack('>I7', now) }, 1
local argument, place, next_key = ARGV[1], 1, 1
-- The limits of one call.
local kinds, counts, bursts, periods, costs = {}, {}, {}, {}, {}
local instants, as, bs, useds, records = {}, {}, {}, {}, {}

-- read takes limit i of the call at hand from the argument, and its state from its key.
-- It returns false for what decide.lua should look at.
local function read(i, key)
  local kind, count, burst, period, cost
  kind, count, burst, period, cost, place = struct.unpack('>BI4I4I7I4', argument, place)
  kinds[i], counts[i], bursts[i], periods[i], costs[i] = kind, count, burst, period, cost
  local rule = rules[kind]
  local record = redis.pcall('GET', key)
  if not record then
    instants[i], as[i], bs[i], useds[i], records[i] = now, 0, 0, 0, ''
    return true
  end
  if type(record) ~= 'string' or #record ~= rule.size then
    return false
  end
  local begins, wrote, old_count, old_burst, old_period, time, a, b = struct.unpack('>I3BI4I4I7I7' .. rule.format, record)
  if begins ~= magic or wrote ~= kind or old_period ~= period or old_count < 1 or old_count > MAX_COUNT
    or time > MAX_INSTANT or not rule.sound(old_count, old_burst, period, a, b) then
    return false
  end
  local instant = time > now and time or now -- time never runs backwards
  instants[i], records[i] = instant, record
  as[i], bs[i], useds[i] = rule.at(old_count, period, time, a, b, instant)
  return true
end

-- charge adds granted times the costs to all limits of the call at hand, and reports
-- whether redis let it.
local function charge(limits, granted)
  for i = 1, limits do
    local kind, count, period, instant, a = kinds[i], counts[i], periods[i], instants[i], as[i] + granted * costs[i]
    local rule = rules[kind]
    local record = struct.pack('>I3BI4I4I7I7' .. rule.format, magic, kind, count, bursts[i], period, instant, a, bs[i])
    if not pcall(set, KEYS[next_key + i - 1], record, rule.unused_at(count, period, instant, a, bs[i]), now) then
      return false
    end
    useds[i], records[i] = useds[i] + granted * costs[i], record
  end
  return true
end

while next_key <= #KEYS do
  local op, limits, times
  op, limits, times, place = struct.unpack('>c1BI2', argument, place)
  local usual = true
  for i = 1, limits do
    usual = read(i, KEYS[next_key + i - 1]) and usual
  end
  local granted = times
  if usual then
    for i = 1, limits do
      local room = (rules[kinds[i]].has_burst and bursts[i] or counts[i]) - useds[i]
      local fit = room < costs[i] and 0 or (room - room % costs[i]) / costs[i]
      if op == 'p' and fit > 0 then
        fit = times -- nothing is used up
      end
      if fit < granted then
        granted = fit
      end
    end
    if op == 't' and granted > 0 then
      usual = charge(limits, granted)
    end
  end
  parts = parts + 1
  if not usual then
    reply[parts] = '\1'
  else
    reply[parts] = struct.pack('>BI2', 0, granted)
    for i = 1, limits do
      local capacity = rules[kinds[i]].has_burst and bursts[i] or counts[i]
      local fits = granted == times or useds[i] + costs[i] <= capacity
      parts = parts + 1
      reply[parts] = struct.pack('>BB', fits and 1 or 0, #records[i]) .. records[i]
    end
  end
  next_key = next_key + limits
end
return table.concat(reply)

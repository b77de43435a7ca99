-- Decides many independent calls at one instant, one after the other: each a take or
-- peek of one or several limits whose states are two numbers, all or nothing, and asked
-- one or several times over. It leaves everything unusual to decide.lua.
--
-- KEYS     the store keys of the first call's limits, then those of the second, and so
--          on. A key may come again in a later call, and not within one.
-- ARGV[1]  runs of calls that differ in nothing but their keys. Each run: how many calls
--          1, op 1 ('t' take, 'p' peek), limits 1, times 2 (how often each is asked),
--          and then each limit as in frame.lua
-- ARGV[2]  and ARGV[3] as in frame.lua, with the requests being the limits of the runs
-- Returns  now 7, then for each call a status 1:
--          0  decided: granted 2 (how many of the times were allowed), and for each
--             limit: allowed 1 (0 or 1, whether one more time, or the last, fits),
--             length 1 and that many bytes of the record as it is now
--          1  left to decide.lua: the state is unusual, or redis refused a SET, of
--             which it refuses all of a script's or none. Nothing has been written for
--             the call.
-- Cost     one TIME, and for each limit one GET and, if any was granted, one SET

local reply, parts = { struct.pack('>I7', now) }, 1
local argument, place, next_key, all_keys = ARGV[1], 1, 1, #KEYS

-- decide_single decides the calls of a run that have one limit each: what decide does,
-- without its tables. leaves is what the limits of the run leave, or nil.
local function decide_single(calls, op, times, leaves)
  local kind, count, burst, period, cost
  kind, count, burst, period, cost, place = struct.unpack('>BI4I4I7I4', argument, place)
  local rule = rules[kind]
  local size, sound, at, unused_at = rule.size, rule.sound, rule.at, rule.unused_at
  local layout = '>I3BI4I4I7I7' .. rule.format
  local all_granted = struct.pack('>BI2BB', 0, times, 1, size) -- what mostly is the answer
  local capacity = burst -- which is the count for a rule without bursts
  if leaves then
    capacity = burst - struct.unpack('>I4', leaves)
  end
  for call = 1, calls do
    local key = KEYS[next_key + call - 1]
    local record = redis.pcall('GET', key)
    local usual, instant, a, b, used = true, now, 0, 0, 0
    if not record then
      record = ''
    elseif type(record) ~= 'string' or #record ~= size then
      usual = false
    else
      local begins, wrote, old_count, old_burst, old_period, time, old_a, old_b = struct.unpack(layout, record)
      if begins ~= magic or wrote ~= kind or old_period ~= period or old_count < 1 or old_count > 1e9
        or time >= 2 ^ 52 or not sound(old_count, old_burst, period, old_a, old_b) then
        usual = false
      else
        if time > now then
          instant = time -- time never runs backwards
        end
        a, b, used = at(old_count, period, time, old_a, old_b, instant)
      end
    end
    local granted, room = times, capacity - used
    if room < times * cost then
      granted = room < cost and 0 or op == 'p' and times or (room - room % cost) / cost
    end
    if usual and op == 't' and granted > 0 then
      a, used = a + granted * cost, used + granted * cost
      record = struct.pack(layout, magic, kind, count, burst, period, instant, a, b)
      local expiry = milliseconds(unused_at(count, period, instant, a, b) - expires_from)
      usual = not redis.pcall('SET', key, record, expires, expiry).err
    end
    parts = parts + 2
    if not usual then
      reply[parts - 1], reply[parts] = '\1', ''
    elseif granted == times and #record == size then
      reply[parts - 1], reply[parts] = all_granted, record
    else
      local fits = granted == times or used + cost <= capacity
      reply[parts - 1], reply[parts] = struct.pack('>BI2BB', 0, granted, fits and 1 or 0, #record), record
    end
  end
  next_key = next_key + calls
end

-- The limits of one run, and their states in the call at hand. What a limit leaves counts as used.
local kinds, counts, bursts, periods, costs, used_rules, layouts = {}, {}, {}, {}, {}, {}, {}
local instants, as, bs, useds, records = {}, {}, {}, {}, {}

-- charge adds granted times the costs to all limits of the call at hand, and reports
-- whether redis let it.
local function charge(limits, granted)
  for i = 1, limits do
    local count, burst, period, instant = counts[i], bursts[i], periods[i], instants[i]
    local a, b = as[i] + granted * costs[i], bs[i]
    local record = struct.pack(layouts[i], magic, kinds[i], count, burst, period, instant, a, b)
    local expiry = milliseconds(used_rules[i].unused_at(count, period, instant, a, b) - expires_from)
    if redis.pcall('SET', KEYS[next_key + i - 1], record, expires, expiry).err then
      return false
    end
    useds[i], records[i] = useds[i] + granted * costs[i], record
  end
  return true
end

-- decide decides the call at hand, and returns how many of its times are granted, or
-- nothing for what decide.lua should look at.
local function decide(op, limits, times, leaves)
  local granted = times
  for i = 1, limits do
    local rule, period, cost = used_rules[i], periods[i], costs[i]
    local record = redis.pcall('GET', KEYS[next_key + i - 1])
    local used = 0
    if not record then
      instants[i], as[i], bs[i], records[i] = now, 0, 0, ''
    elseif type(record) ~= 'string' or #record ~= rule.size then
      return
    else
      local begins, wrote, old_count, old_burst, old_period, time, a, b = struct.unpack(layouts[i], record)
      if begins ~= magic or wrote ~= kinds[i] or old_period ~= period or old_count < 1 or old_count > 1e9
        or time >= 2 ^ 52 or not rule.sound(old_count, old_burst, period, a, b) then
        return
      end
      local instant = time > now and time or now -- time never runs backwards
      as[i], bs[i], used = rule.at(old_count, period, time, a, b, instant)
      instants[i], records[i] = instant, record
    end
    if leaves then
      used = used + struct.unpack('>I4', leaves, i * 4 - 3)
    end
    useds[i] = used
    local room = bursts[i] - used -- the burst is the count for a rule without bursts
    if room < times * cost then
      local fit = room < cost and 0 or op == 'p' and times or (room - room % cost) / cost
      if fit < granted then
        granted = fit
      end
    end
  end
  if op == 't' and granted > 0 and not charge(limits, granted) then
    return
  end
  return granted
end

-- decide_several decides the calls of a run that have several limits each.
local function decide_several(calls, op, limits, times, leaves)
  for i = 1, limits do
    kinds[i], counts[i], bursts[i], periods[i], costs[i], place = struct.unpack('>BI4I4I7I4', argument, place)
    used_rules[i] = rules[kinds[i]]
    layouts[i] = '>I3BI4I4I7I7' .. used_rules[i].format
  end
  for _ = 1, calls do
    local granted = decide(op, limits, times, leaves)
    parts = parts + 1
    if granted then
      reply[parts] = struct.pack('>BI2', 0, granted)
      for i = 1, limits do
        local fits = granted == times or useds[i] + costs[i] <= bursts[i]
        reply[parts + 1], reply[parts + 2] = struct.pack('>BB', fits and 1 or 0, #records[i]), records[i]
        parts = parts + 2
      end
    else
      reply[parts] = '\1'
    end
    next_key = next_key + limits
  end
end

local all_leaves, next_leave = ARGV[3], 1
while next_key <= all_keys do
  local calls, op, limits, times, leaves
  calls, op, limits, times, place = struct.unpack('>Bc1BI2', argument, place)
  if all_leaves then
    leaves = string.sub(all_leaves, next_leave, next_leave + limits * 4 - 1)
    next_leave = next_leave + limits * 4
  end
  if limits == 1 then
    decide_single(calls, op, times, leaves)
  else
    decide_several(calls, op, limits, times, leaves)
  end
end
return table.concat(reply)

-- Rings: a state that says when how many units were taken, oldest first, read and
-- written by range, so that a decision costs a handful of small commands however
-- long the ring is. The Go twin is pkg/limiter/store/unit_log.go, and the layout is at
-- ringLayout there. Such a rule has the functions that numbers.lua lists, most of them
-- from the end of this file, and:
--   header, ring_at       the format of head, length and base, which come after the
--                         record's header, and where the ring after them begins
--   entry, entry_size     the format of an entry (at, running sum), and its bytes
--   wrap                  what at runs by, within 2^53 of the record's time
--   modulus, max_units    what sums run by, and the most units that a ring holds
--   magic                 the record's, if that is not of version 1
--   measure(count, burst, period)  the steps that at counts, in µs, and how many of
--                         them an entry stays in view; nil if no limit is like that
--   used(s, now)          the units in use, rounded up
--   answer(s, room, now)  a record that says, in a few entries, what is used, when
--                         no more than room will be, and when nothing
--
-- A state s has the fields of the record's header, step and span as measured, latest
-- (the record's time in steps), capacity, head, length and base of the ring, and raw,
-- the record's beginning as it was read. What a charge or a refund changes is noted:
-- the newest entry in s.newest and s.newest_sum, and in s.replaces whether it is written over
-- an entry of the record.

local function range(s, from, bytes)
  if from + bytes <= #s.raw then
    return string.sub(s.raw, from + 1, from + bytes)
  end
  return redis.call('GETRANGE', s.key, string.format('%.0f', from), string.format('%.0f', from + bytes - 1))
end

-- position returns where in the record the entry i lies, 0 being the oldest.
local function position(s, i)
  return s.rule.ring_at + (s.head + i) % s.capacity * s.rule.entry_size
end

local function entry(s, i) -- at, running sum
  local at, sum = struct.unpack(s.rule.entry, range(s, position(s, i), s.rule.entry_size))
  return s.latest - (s.latest - at) % s.rule.wrap, sum
end

local function units_through(s, i) -- units up to and including entry i
  if i < 0 then
    return 0
  end
  local _, sum = entry(s, i)
  return (sum - s.base) % s.rule.modulus
end

-- first_where returns the least index whose entry satisfies holds(at, units
-- through it), or s.length. The steps double from the oldest entry, where the answer
-- mostly is.
local function first_where(s, holds)
  local function at(i)
    local when, sum = entry(s, i)
    return holds(when, (sum - s.base) % s.rule.modulus)
  end
  local low, high = 0, 1
  while high <= s.length and not at(high - 1) do
    low, high = high, high * 2
  end
  high = math.min(high - 1, s.length)
  while low < high do
    local middle = math.floor((low + high) / 2)
    if at(middle) then
      high = middle
    else
      low = middle + 1
    end
  end
  return low
end

-- expired returns how many entries are out of view, and their units.
local function expired(s, now)
  local gone = (now - now % s.step) / s.step - s.span
  local count = first_where(s, function(at)
    return at > gone
  end)
  return count, units_through(s, count - 1)
end

local function drop_expired(s, now)
  local count, units = expired(s, now)
  s.base = (s.base + units) % s.rule.modulus
  s.length = s.length - count
  if s.length > 0 then
    s.head = (s.head + count) % s.capacity
  else
    s.head = 0
  end
end

-- unwrapped returns the entries in use as one string, oldest first.
local function unwrapped(s)
  local size = s.rule.entry_size
  local first = s.capacity > 0 and s.head % s.capacity or 0
  local run = math.min(s.length, s.capacity - first)
  local entries = run > 0 and range(s, s.rule.ring_at + first * size, run * size) or ''
  if run < s.length then
    entries = entries .. range(s, s.rule.ring_at, (s.length - run) * size)
  end
  return entries
end

-- ring_header packs what comes before the entries.
local function ring_header(s, head, length, base)
  local layout, begins = '>I3BI4I4I7I7' .. s.rule.header, s.rule.magic or magic
  return struct.pack(layout, begins, s.kind, s.count, s.burst, s.period, s.time, head, length, base)
end

-- update writes the newest entry and the header into the record as it is. It returns false and
-- leaves the record as it was if the user may not. The expiry comes last: a server older than
-- 7.2 deletes a key at once when its expiry has passed by the clock, which runs on during a
-- script. A later write would make the key anew, with a part of the record and no expiry.
local function update(s, newest, unused_at, now)
  local at, header = position(s, s.length - 1), ring_header(s, s.head, s.length, s.base)
  local replaced = s.replaces and range(s, at, s.rule.entry_size)
  if type(redis.pcall('SETRANGE', s.key, string.format('%.0f', at), newest)) ~= 'number' then
    return false
  end
  redis.call('SETRANGE', s.key, '0', header)
  local expires
  if simulated then
    expires = redis.pcall('PEXPIRE', s.key, milliseconds(unused_at - now + 3600000000))
  else
    expires = redis.pcall('PEXPIREAT', s.key, milliseconds(unused_at))
  end
  if type(expires) == 'number' then
    return true
  end
  redis.call('SETRANGE', s.key, '0', string.sub(s.raw, 1, s.rule.ring_at))
  if replaced then
    redis.call('SETRANGE', s.key, string.format('%.0f', at), replaced)
  end
  return false
end

-- ring_load reads the ring's numbers and returns whether they make sense.
local function ring_load(s, size)
  local rule = s.rule
  s.step, s.span = rule.measure(s.count, s.burst, s.period)
  if not s.step or size < rule.ring_at or size > 12500057 or (size - rule.ring_at) % rule.entry_size ~= 0 then
    return false
  end
  s.latest = (s.time - s.time % s.step) / s.step
  s.capacity = (size - rule.ring_at) / rule.entry_size
  s.head, s.length, s.base = struct.unpack('>' .. rule.header, s.raw, 27)
  if s.length > s.capacity or s.head >= math.max(1, s.capacity) then
    return false
  end
  -- Looking at every entry would cost what the ring saves; the ends must fit.
  if s.length > 0 then
    local oldest, newest = entry(s, 0), entry(s, s.length - 1)
    local units = units_through(s, s.length - 1)
    return oldest <= newest and oldest > s.latest - s.span and units >= s.length and units <= rule.max_units
  end
  return true
end

local function ring_fresh(s)
  s.step, s.span = s.rule.measure(s.count, s.burst, s.period)
  s.capacity, s.head, s.length, s.base, s.raw = 0, 0, 0, 0, ''
end

local function ring_charge(s, cost, now)
  drop_expired(s, now)
  local at = (now - now % s.step) / s.step
  s.newest_sum = (s.base + units_through(s, s.length - 1) + cost) % s.rule.modulus
  s.replaces = s.length > 0 and entry(s, s.length - 1) == at -- what is taken at once shares an entry
  if not s.replaces then
    s.length = s.length + 1
  end
  s.newest, s.time = at, now
end

local function ring_refund(s, cost, now)
  drop_expired(s, now)
  local left = units_through(s, s.length - 1) - cost
  if left <= 0 then
    return false
  end
  local index = first_where(s, function(_, units)
    return units >= left
  end)
  s.newest = entry(s, index)
  s.newest_sum, s.length, s.time, s.replaces = (s.base + left) % s.rule.modulus, index + 1, now, true
  return true
end

-- ring_in_place says that saving writes into the record as it is: the ring has room,
-- and not a third of it is empty.
local function ring_in_place(s)
  return s.length <= s.capacity and (s.capacity <= 64 or s.length * 1.5 >= s.capacity)
end

local function ring_save(s, now)
  local newest = struct.pack(s.rule.entry, s.newest % s.rule.wrap, s.newest_sum)
  local unused_at = (s.newest + s.span) * s.step
  if ring_in_place(s) and update(s, newest, unused_at, now) then
    return
  end
  -- The ring anew, with a quarter to spare, if that can ever be in view. This needs no right but that to SET,
  -- so it also serves a user who lacks those to update.
  s.length = s.length - 1
  local entries = unwrapped(s)
  s.length = s.length + 1
  local spare = string.rep('\0', math.min(math.floor(s.length / 4) + 2, s.span - s.length) * s.rule.entry_size)
  local record = ring_header(s, 0, s.length, s.base) .. entries .. newest .. spare
  redis.call('SET', s.key, record, expires, milliseconds(unused_at - expires_from))
end

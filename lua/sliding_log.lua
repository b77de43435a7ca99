-- Sliding log: the time of every unit is kept for one period. The rule is
-- explained in its twin, pkg/limiter/sliding_log.go, the ring in unit_log.go.
-- After the record's header come head, length and base sum, then the ring: an
-- entry of 10 bytes says until when (instant) how many units (running sum, of
-- which only differences count) were taken. The ring is read and written by
-- range, so a decision costs a handful of small commands whatever the count.

local ring_at, entry_size, modulus = 37, 10, 16777216

-- A log's state table has the fields of the record's header, capacity, head,
-- length and base of the ring, and raw, the record's beginning as it was read.

local function range(s, from, bytes)
  if from + bytes <= #s.raw then
    return string.sub(s.raw, from + 1, from + bytes)
  end
  return redis.call('GETRANGE', s.key, string.format('%.0f', from), string.format('%.0f', from + bytes - 1))
end

-- position returns where in the record the entry i lies, 0 being the oldest.
local function position(s, i)
  return ring_at + (s.head + i) % s.capacity * entry_size
end

local function entry(s, i) -- instant, running sum
  return struct.unpack('>I7I3', range(s, position(s, i), entry_size))
end

local function units_through(s, i) -- units up to and including entry i
  if i < 0 then
    return 0
  end
  local _, sum = entry(s, i)
  return (sum - s.base) % modulus
end

-- first_where returns the least index whose entry satisfies holds(instant,
-- units through it), or s.length. The steps double from the oldest entry, where
-- the answer mostly is.
local function first_where(s, holds)
  local function at(i)
    local instant, sum = entry(s, i)
    return holds(instant, (sum - s.base) % modulus)
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

-- expired returns how many entries have left the window, and their units.
local function expired(s, now)
  local before = now - s.period
  local count = first_where(s, function(instant)
    return instant > before
  end)
  return count, units_through(s, count - 1)
end

local function drop_expired(s, now)
  local count, units = expired(s, now)
  s.base = (s.base + units) % modulus
  s.length = s.length - count
  if s.length > 0 then
    s.head = (s.head + count) % s.capacity
  else
    s.head = 0
  end
end

-- unwrapped returns the entries in use as one string, oldest first.
local function unwrapped(s)
  local first = s.capacity > 0 and s.head % s.capacity or 0
  local run = math.min(s.length, s.capacity - first)
  local entries = run > 0 and range(s, ring_at + first * entry_size, run * entry_size) or ''
  if run < s.length then
    entries = entries .. range(s, ring_at, (s.length - run) * entry_size)
  end
  return entries
end

local function log_header(s)
  return struct.pack('>I3BI4I4I7I7I4I4I3', magic, 4, s.count, s.burst, s.period, s.time, s.head, s.length, s.base)
end

-- log_load reads the ring's numbers and returns whether they make sense.
local function log_load(s, size)
  if size < ring_at or size > 12500057 or (size - ring_at) % entry_size ~= 0 then
    return false
  end
  s.capacity = (size - ring_at) / entry_size
  s.head, s.length, s.base = struct.unpack('>I4I4I3', s.raw, 27)
  if s.count > 1000000 or s.length > s.capacity or s.head >= math.max(1, s.capacity) then
    return false
  end
  -- Looking at every entry would cost what the ring saves; the ends must fit.
  if s.length > 0 then
    local oldest, newest = entry(s, 0), entry(s, s.length - 1)
    local units = units_through(s, s.length - 1)
    return oldest <= newest and newest <= s.time and units >= s.length and units <= 1000000
  end
  return true
end

local function log_new(s)
  s.capacity, s.head, s.length, s.base, s.raw = 0, 0, 0, 0, ''
end

local function log_used(s, now)
  local _, gone = expired(s, now)
  return units_through(s, s.length - 1) - gone
end

-- What a charge or a refund changes is noted: the newest entry's instant in
-- s.newest and its running sum in s.newest_sum.

local function log_charge(s, cost, now)
  drop_expired(s, now)
  s.newest_sum = (s.base + units_through(s, s.length - 1) + cost) % modulus
  if s.length == 0 or entry(s, s.length - 1) ~= now then -- units of one instant share an entry
    s.length = s.length + 1
  end
  s.newest, s.time = now, now
end

-- log_refund returns whether any units are left.
local function log_refund(s, cost, now)
  drop_expired(s, now)
  local left = units_through(s, s.length - 1) - cost
  if left <= 0 then
    return false
  end
  local index = first_where(s, function(_, units)
    return units >= left
  end)
  s.newest = entry(s, index)
  s.newest_sum, s.length, s.time = (s.base + left) % modulus, index + 1, now
  return true
end

-- log_is_rewritten says that saving lays the ring anew: it is full, or a third
-- of it is empty.
local function log_is_rewritten(s)
  return s.length > s.capacity or (s.capacity > 64 and s.length * 1.5 < s.capacity)
end

-- log_update writes the newest entry and the header into the record as it is, and
-- returns whether it may. The entry lies outside the length, and the later expiry
-- harms nothing, until the header counts it.
local function log_update(s, newest, now)
  local place = string.format('%.0f', position(s, s.length - 1))
  local unused_at = s.newest + s.period
  local wrote = redis.pcall('SETRANGE', s.key, place, newest)
  if type(wrote) == 'number' then
    if simulated then
      wrote = redis.pcall('PEXPIRE', s.key, milliseconds(unused_at - now + 3600000000))
    else
      wrote = redis.pcall('PEXPIREAT', s.key, milliseconds(unused_at))
    end
  end
  return type(wrote) == 'number' and redis.call('SETRANGE', s.key, '0', log_header(s))
end

local function log_save(s, now)
  local newest = struct.pack('>I7I3', s.newest, s.newest_sum)
  if not log_is_rewritten(s) and log_update(s, newest, now) then
    return
  end
  -- The ring anew, with a quarter to spare. This needs no right but that to SET,
  -- so it also serves a user who lacks those to update.
  s.length = s.length - 1
  local entries = unwrapped(s)
  s.length, s.head = s.length + 1, 0
  local spare = string.rep('\0', (math.floor(s.length / 4) + 2) * entry_size)
  set(s.key, log_header(s) .. entries .. newest .. spare, s.newest + s.period, now)
end

-- log_digest packs what the caller needs of a log: how much is used, when the
-- newest unit leaves, and when enough have left to leave no more than room. A log
-- of one entry or two says it.
local function log_digest(s, room, now)
  local function pack(at, sum, newest, newest_sum)
    local record = struct.pack('>I3BI4I4I7I7I4I4I3I7I3', magic, 4, s.count, s.burst, s.period, s.time, 0, newest and 2 or 1, 0, at, sum)
    return newest and record .. struct.pack('>I7I3', newest, newest_sum) or record
  end
  if s.newest then -- just charged or refunded
    return pack(s.newest, (s.newest_sum - s.base) % modulus)
  end
  local _, gone = expired(s, now)
  local all = units_through(s, s.length - 1)
  local in_use = all - gone
  if in_use == 0 then
    return ''
  end
  local newest = entry(s, s.length - 1)
  if in_use <= room then
    return pack(newest, in_use)
  end
  local blocking = entry(s, first_where(s, function(_, units)
    return units >= all - room
  end))
  if room == 0 then
    return pack(blocking, in_use)
  end
  return pack(blocking, in_use - room, newest, in_use)
end

-- Sliding log: the time of every unit is kept for one period. The rule is
-- explained in its twin, pkg/limiter/sliding_log.go, the ring in unit_log.go.
-- After the record's header come head, length and base sum, then the ring: an
-- entry of 10 bytes says until when (instant) how many units (running sum, of
-- which only differences count) were taken. The ring is read and written by
-- range, so a decision costs a handful of small commands whatever the count.

first_bytes = '511' -- a small ring whole, of a large one the header

local ring_at, entry_size, modulus = 37, 10, 16777216

local function range(s, from, bytes)
  if from + bytes <= #s.raw then
    return string.sub(s.raw, from + 1, from + bytes)
  end
  return redis.call('GETRANGE', s.key, integer(from), integer(from + bytes - 1))
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
  high = min(high - 1, s.length)
  while low < high do
    local middle = floor((low + high) / 2)
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
  local run = min(s.length, s.capacity - first)
  local entries = run > 0 and range(s, ring_at + first * entry_size, run * entry_size) or ''
  if run < s.length then
    entries = entries .. range(s, ring_at, (s.length - run) * entry_size)
  end
  return entries
end

local function log_header(s)
  return header(s) .. struct.pack('>I4I4I3', s.head, s.length, s.base)
end

-- digest packs a log of one entry or two (instant, running sum).
local function digest(s, at, sum, newest, newest_sum)
  local record = header(s) .. struct.pack('>I4I4I3I7I3', 0, newest and 2 or 1, 0, at, sum)
  return newest and record .. struct.pack('>I7I3', newest, newest_sum) or record
end

rules[4] = {
  load = function(s)
    local bytes = #s.raw
    if bytes == 512 then
      bytes = redis.call('STRLEN', s.key)
    end
    if bytes < ring_at or (bytes - ring_at) % entry_size ~= 0 then
      return false
    end
    s.capacity = (bytes - ring_at) / entry_size
    s.head, s.length, s.base = struct.unpack('>I4I4I3', s.raw, 27)
    return s.length <= s.capacity and s.head < max(1, s.capacity)
  end,

  new = function(s)
    s.capacity, s.head, s.length, s.base, s.raw = 0, 0, 0, 0, ''
  end,

  used = function(s, now)
    local _, gone = expired(s, now)
    return units_through(s, s.length - 1) - gone
  end,

  -- What changes is noted in s.last (index, instant, sum of the newest entry).
  charge = function(s, cost, now)
    drop_expired(s, now)
    local sum = (s.base + units_through(s, s.length - 1) + cost) % modulus
    local newest = s.length > 0 and entry(s, s.length - 1)
    if newest ~= now then -- units taken at one instant share an entry
      s.length = s.length + 1
    end
    s.last, s.newest, s.time = sum, now, now
  end,

  refund = function(s, cost, now)
    drop_expired(s, now)
    local left = units_through(s, s.length - 1) - cost
    s.time = now
    if left <= 0 then
      return true
    end
    local index = first_where(s, function(_, units)
      return units >= left
    end)
    s.newest = entry(s, index)
    s.last, s.length = (s.base + left) % modulus, index + 1
    return false
  end,

  unused_at = function(s)
    return s.newest + s.period
  end,

  save = function(s, unused_at, now)
    local newest = struct.pack('>I7I3', s.newest, s.last)
    if s.length > s.capacity or (s.capacity > 64 and s.length * 4 < s.capacity) then
      -- Full, or mostly empty: lay the ring anew with a quarter to spare.
      s.length = s.length - 1
      local entries = unwrapped(s)
      s.length, s.head = s.length + 1, 0
      local spare = floor(s.length / 4) + 2
      set(s.key, log_header(s) .. entries .. newest .. string.rep('\0', spare * entry_size), unused_at, now)
    else
      -- The entry lies outside the length, and the later expiry harms nothing,
      -- until the header counts it: should a right be missing, none is half done.
      redis.call('SETRANGE', s.key, integer(position(s, s.length - 1)), newest)
      expire(s.key, unused_at, now)
      redis.call('SETRANGE', s.key, '0', log_header(s))
    end
  end,

  -- What the caller needs of a log is how much is used, when the newest unit
  -- leaves and when enough have left to fit room: a log of two entries says it.
  reply = function(s, room, now)
    if s.last then -- just charged or refunded
      return digest(s, s.newest, (s.last - s.base) % modulus)
    end
    local _, gone = expired(s, now)
    local all = units_through(s, s.length - 1)
    local used = all - gone
    if used == 0 then
      return ''
    end
    local newest = entry(s, s.length - 1)
    if used <= room then
      return digest(s, newest, used)
    end
    local blocking = entry(s, first_where(s, function(_, units)
      return units >= all - room
    end))
    if room == 0 then
      return digest(s, blocking, used)
    end
    return digest(s, blocking, used - room, newest, used)
  end,
}

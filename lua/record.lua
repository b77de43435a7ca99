-- Records: the value under a key. The layout is in pkg/limiter/record.go. A
-- state is a table with the record's fields:
--   algorithm, count, burst, period (µs)  the limit last applied
--   time      instant of the last charge, µs since the epoch
--   units     in the level's whole units, or in the window of time
--   rest      the level's fraction in 1/period units, or the previous window's units
--   raw       the record as read (of a log, its beginning)
--   key
-- An unused key is false.

-- The rules by algorithm, each a table of functions:
--   load(s)               reads the state out of s.raw, or returns false
--   new(s)                makes s the state of an unused key
--   used(s, now)          units in use, rounded up
--   charge(s, cost, now)  adds cost
--   refund(s, cost, now)  takes cost off and returns whether none is left
--   unused_at(s)          when s equals an unused state again
--   save(s, unused_at, now)
--   reply(s, room, now)   what to return instead of the record (optional)
local rules = {}

-- How much of a value to read. All records but logs are shorter.
local first_bytes = '63'

-- foreign makes the error reply for a key that holds something else.
local function foreign(i, holds)
  return { err = 'FOREIGN ' .. i .. ' ' .. holds }
end

-- load reads the state of KEYS[i]: state or false, or nil and an error reply.
local function load(i)
  local key = KEYS[i]
  local raw = redis.pcall('GETRANGE', key, '0', first_bytes)
  if type(raw) == 'table' then
    if string.find(raw.err, 'WRONGTYPE', 1, true) then
      local kind = redis.pcall('TYPE', key)
      return nil, foreign(i, 'a ' .. (kind.ok or 'value of another type') .. ', which is no limit record')
    end
    return nil, raw
  end
  if raw == '' then
    -- A key that holds the empty string is not ours, but looks like none.
    if redis.call('EXISTS', key) == 1 then
      return nil, foreign(i, '0 bytes that are no limit record')
    end
    return false
  end
  if #raw < 26 or string.sub(raw, 1, 2) ~= 'RL' then
    return nil, foreign(i, integer(redis.call('STRLEN', key)) .. ' bytes that are no limit record')
  end
  local version, algorithm, count, burst, period, time = struct.unpack('>BBI4I4I7I7', raw, 3)
  if version ~= 1 then
    return nil, foreign(i, 'a limit record of version ' .. version .. ', which this limitctl does not know')
  end
  local rule = rules[algorithm]
  if not rule then
    if algorithm < 1 or algorithm > 5 then
      return nil, foreign(i, 'a damaged limit record (unknown algorithm)')
    end
    return nil, { err = 'ALGORITHM' }
  end
  local s = { algorithm = algorithm, count = count, burst = burst, period = period, time = time, raw = raw, key = key }
  if count < 1 or period < 1000 or not rule.load(s) then
    return nil, foreign(i, 'a damaged limit record')
  end
  return s
end

-- header packs what all records begin with.
local function header(s)
  return struct.pack('>c2BBI4I4I7I7', 'RL', 1, s.algorithm, s.count, s.burst, s.period, s.time)
end

-- The expiry of a record. By the server's clock it is absolute, so that the key
-- goes when its state equals an unused one and no millisecond before. With a
-- clock of the caller's it can only be relative, and is late by an hour so that
-- the server's clock does not decide.
local simulated = ARGV[3] ~= nil
local grace_ms = 3600000
local has_pxat = redis.REDIS_VERSION_NUM and redis.REDIS_VERSION_NUM >= 0x00060200

local function milliseconds(us) -- rounded up
  return integer((div(us + 999, 1000)))
end

-- expire sets the expiry of a key that exists.
local function expire(key, unused_at, now)
  if simulated then
    redis.call('PEXPIRE', key, integer(milliseconds(unused_at - now) + grace_ms))
  else
    redis.call('PEXPIREAT', key, milliseconds(unused_at))
  end
end

-- set stores a value with its expiry, in one command where the server can.
local function set(key, value, unused_at, now)
  if has_pxat and not simulated then
    redis.call('SET', key, value, 'PXAT', milliseconds(unused_at))
  else
    redis.call('SET', key, value)
    expire(key, unused_at, now)
  end
end

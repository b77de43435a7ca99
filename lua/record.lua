-- Records: the value under a key. The layout is in pkg/limiter/record.go; its
-- first three bytes are one number here.

local magic = 0x524c01 -- "RL", version 1

-- The bounds of a limit and of an instant; see limit.go and record.go.
local max_count, max_period, max_instant = 1000000000, 31622400000000, 4503599627370496

-- sound reports whether two numbers a and b can be the state of a record with
-- that header. What Go would call damaged is nothing to decide or overwrite.
local function sound(algorithm, count, burst, period, time, a, b)
  if count < 1 or count > max_count or period < 1000 or period > max_period or time >= max_instant then
    return false
  end
  if algorithm <= 2 then
    return burst >= 1 and burst <= max_count and b < period and (a < burst or a == burst and b == 0)
  end
  return burst == count and a <= max_count and b <= max_count
end

-- The algorithms whose state is two numbers, a and b, by their numbers in
-- records. An algorithm's time is the instant of the last charge, in µs since
-- the epoch; count and period (µs) are those of the limit that wrote the record.
--   format, size                         of the state, and of the whole record
--   at(count, period, time, a, b, now)   a and b as they are at now, and the
--                                        units then in use, rounded up
--   refund(a, b, cost)                   a and b with cost units taken off
--   unused_at(count, period, time, a, b) when nothing is in use any more
-- A charge adds its cost to a.
local rules = {}

-- The expiry of a record. By the server's clock it is absolute, so that the key
-- goes when its state equals an unused one and no millisecond before; on a server
-- older than 6.2, which has no PXAT, it is relative and a millisecond late. With
-- a clock of the caller's it can only be relative, and is late by an hour so that
-- the server's clock does not decide.
local has_pxat = redis.REDIS_VERSION_NUM and redis.REDIS_VERSION_NUM >= 0x00060200
local simulated = ARGV[2]
local late_ms = simulated and 3600000 or 1

-- milliseconds formats µs, rounded up: some servers fail to convert large numbers
-- themselves.
local function milliseconds(us)
  us = us + 999
  return string.format('%.0f', (us - fmod(us, 1000)) / 1000)
end

-- set stores a value with its expiry, in one command.
local function set(key, value, unused_at, now)
  if has_pxat and not simulated then
    redis.call('SET', key, value, 'PXAT', milliseconds(unused_at))
  else
    redis.call('SET', key, value, 'PX', milliseconds(unused_at - now + late_ms * 1000))
  end
end

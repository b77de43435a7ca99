-- Records: the value under a key. The layout is in internal/recordformat; its
-- first three bytes are one number here. Words in capitals stand for numbers that
-- lua.go puts in their place: those of algorithms, sizes and bounds.

local magic = RECORD_MAGIC

-- The clock: the server's, or the caller's in tests and simulations.
local simulated = ARGV[2]
if simulated == '' then
  simulated = nil
end
local now
if simulated then
  now = tonumber(simulated)
else
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end

-- The expiry of a record, as SET has it: a word, and the instant from which it counts.
-- By the server's clock it is absolute, so that the key goes when its state equals an
-- unused one and no millisecond before; on a server older than 6.2, which has no PXAT,
-- it is relative and a millisecond late. With a clock of the caller's it can only be
-- relative, and is late by an hour so that the server's clock does not decide.
local expires, expires_from = 'PXAT', 0
if simulated then
  expires, expires_from = 'PX', now - 3600000000
elseif (redis.REDIS_VERSION_NUM or 0) < 0x00060200 then
  expires, expires_from = 'PX', now - 1000
end

-- milliseconds formats µs, rounded up: some servers fail to convert large numbers
-- themselves. In two parts it takes half the time that '%.0f' does, and '%d' alone is
-- for 31 bits on some machines.
local function milliseconds(us)
  us = us + 999
  local whole = (us - us % 1000) / 1000
  local low = whole % 1000000
  if low == whole then
    return string.format('%d', whole)
  end
  return string.format('%d%06d', (whole - low) / 1000000, low)
end

-- The frame of every script that decides: arithmetic of large numbers, the clock, records and when they expire. With an
-- algorithm at the line ALGORITHM it decides one take or peek of one limit whose state is two numbers: the usual call,
-- kept short, since a script makes its functions anew on each call. many.lua and decide.lua take the place of its end.
--
-- KEYS[1]  the store key
-- ARGV[1]  op 1 ('t' take, 'p' peek, which writes nothing), and the request, big-endian: kind 1, count 4, burst,
--          slices or window 4, period 7 (µs), cost 4
-- ARGV[2]  now in µs, instead of the server's clock; for tests and simulation. Missing or '' else
-- ARGV[3]  the units 4 that the request leaves to others: it is allowed if used + cost + leave is within the
--          capacity. Missing if it leaves none
-- Returns  now 7, allowed 1 (0 or 1), length 1, and that many bytes of the record as it is now, none if unused. The
--          caller derives the rest from it.
-- Errors   'COMPLETE', or WRONGTYPE: call decide.lua with all algorithms, which will explain or cope.
--          After an error nothing has been written.
-- Cost     one TIME, one GET and, for an allowed take, one SET

-- Lua's doubles hold integers exactly below 2^53; a·b of this project has up to 2^98.
--
-- Lua computes a % d as a - floor(a / d) · d. Where a stays below 0.9 · 2^53 and d
-- below 10^15, as everything here does, that is exact: the rounding of a / d is
-- then less than the 1 / d by which it can miss a whole number. And what is left
-- of a divides exactly.
--
-- Functions here capture as few locals as they can, because each captured local costs a memory allocation.
-- For the same reason bounds are written as numbers, which lua_test.go compares with those of Go. The
-- Go twin of mul_div is mulAddDiv in pkg/limiter/store/kind.go.

-- mul_div returns the quotient and remainder of a·b ÷ d, for a time 0 <= a < 2^53,
-- units 0 <= b <= 2^30, and units or a period 0 < d <= 366 days in
-- microseconds. The order matters: only b is taken apart, into 35 bits.
-- A quotient beyond 2^53 is inexact, which only happens where it is far above
-- all usage and serves as "everything".
local function mul_div(a, b, d)
  local product = a * b
  if product < 8e15 then
    local remainder = product % d
    return (product - remainder) / d, remainder
  end
  local whole = a
  a = a % d
  whole = (whole - a) / d
  -- Long multiplication of a < d by b's five 7-bit digits, the remainder kept
  -- below d: each step stays below 255·d < 2^53.
  local quotient, remainder = 0, 0
  for shift = 28, 0, -7 do
    local step = remainder * 128 + a * (math.floor(b / 2 ^ shift) % 128)
    remainder = step % d
    quotient = quotient * 128 + (step - remainder) / d
  end
  return whole * b + quotient, remainder
end

-- A record is the value under a key, big-endian (internal/recordformat):
--
--   offset size
--        0    3  magic: 'RL' and the version, as one number
--        3    1  kind, the number of the algorithm
--        4    4  count of the limit that wrote it
--        8    4  its burst, slices or window
--       12    7  its period, µs
--       19    7  when it was last charged, µs since the epoch
--       26       the state of the algorithm
local magic = 0x524c01

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

-- The algorithm. Its state is one or two numbers, a and b. Time is in µs, and count, burst and period are those of the
-- limit that wrote the record. Its file has:
--   format, size                             of the state, and of the whole record
--   sound(count, burst, period, a, b, time)  whether that can be the limit and the state of a record; what Go would
--                                            call damaged is nothing to decide or overwrite
--   at(count, period, time, a, b, now)       a and b as they are at now, and the units then in use, rounded up
--   unused_at(count, period, time, a, b)     when nothing is in use any more
-- A charge adds its cost to a. The table after these functions is for many.lua and decide.lua: see rules.lua. It is not
-- made here.
-- ALGORITHM

local op, kind, count, burst, period, cost = struct.unpack('>c1BI4I4I7I4', ARGV[1])
local layout = '>I3BI4I4I7I7' .. format
local record = redis.call('GET', KEYS[1])
local instant, a, b, used = now, 0, 0, 0
if record then
  if #record ~= size then
    return { err = 'COMPLETE' }
  end
  local begins, wrote, old_count, old_burst, old_period, time, old_a, old_b = struct.unpack(layout, record)
  if begins ~= magic or wrote ~= kind or old_period ~= period or old_count < 1 or old_count > 1e9
    or time >= 2 ^ 52 or not sound(old_count, old_burst, period, old_a, old_b) then
    return { err = 'COMPLETE' }
  end
  if time > now then
    instant = time -- time never runs backwards
  end
  a, b, used = at(old_count, period, time, old_a, old_b, instant)
else
  record = ''
end

local allowed, capacity = 0, burst -- which is the count for an algorithm without bursts
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

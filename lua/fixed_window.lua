-- Fixed window: windows of one period, aligned to the epoch, of count units each. The units were used in the window
-- that holds time.
--
-- KEYS[1]  the store key. Its record has 30 bytes: the header, units 4
-- ARGV     a request as in frame.lua, which also shows how it is decided by the functions below
-- Returns  as frame.lua: now, whether it is allowed, and the record
-- Cost     one TIME and GET, and a SET for an allowed take. The key expires when the window ends.
-- Twin     pkg/limiter/store/fixed_window.go

local format, size = 'I4', 30

local function sound(count, burst, _, units)
  return burst == count and units <= 1e9
end

local function at(_, period, time, units, _, now)
  if now >= time - time % period + period then
    return 0, 0, 0
  end
  return units, 0, units
end

local function unused_at(_, period, time)
  return time - time % period + period
end

rules[3] = {
  format = format,
  size = size,
  sound = sound,
  at = at,
  unused_at = unused_at,

  refund = function(units, _, cost)
    return units > cost and units - cost or 0, 0
  end,
}

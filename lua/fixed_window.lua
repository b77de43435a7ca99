-- Fixed window: windows of one period, aligned to the epoch, of count units
-- each. The rule is explained in its twin, pkg/limiter/store/fixed_window.go.
-- The units were used in the window that holds time.

local format, size = 'I4', FIXED_WINDOW_SIZE

local function sound(count, burst, _, units)
  return burst == count and units <= MAX_COUNT
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

rules[FIXED_WINDOW] = {
  format = format,
  size = size,
  sound = sound,
  at = at,
  unused_at = unused_at,

  refund = function(units, _, cost)
    return units > cost and units - cost or 0, 0
  end,
}

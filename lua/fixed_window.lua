-- Fixed window: windows of one period, aligned to the epoch, of count units
-- each. The rule is explained in its twin, pkg/limiter/fixed_window.go.
-- The units were used in the window that holds time.

rules[FIXED_WINDOW] = {
  format = 'I4',
  size = FIXED_WINDOW_SIZE,

  sound = function(count, burst, _, units)
    return burst == count and units <= MAX_COUNT
  end,

  at = function(_, period, time, units, _, now)
    if now >= time - time % period + period then
      return 0, 0, 0
    end
    return units, 0, units
  end,

  refund = function(units, _, cost)
    return units > cost and units - cost or 0, 0
  end,

  unused_at = function(_, period, time)
    return time - time % period + period
  end,
}

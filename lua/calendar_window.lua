-- Calendar window: windows of a calendar, whose bounds the caller computes, of count units
-- each. The rule is explained in its twin, calendarWindow in pkg/limiter/store/fixed_window.go.
-- What other limits have as their burst says when the window begins: quarters of an hour
-- since the epoch, and then 7 bits for people, which only Go reads. The period is its length.
-- b is when it ends.

local function window_begin(burst)
  return (burst - burst % 128) / 128 * 900000000
end

rules[CALENDAR_WINDOW] = {
  magic = CALENDAR_WINDOW_MAGIC,
  format = 'I4',
  size = CALENDAR_WINDOW_SIZE,
  max_period = MAX_WINDOW,

  sound = function(_, burst, _, units, ends, time)
    return units <= MAX_COUNT and time >= window_begin(burst) and time < ends
  end,

  at = function(_, _, _, units, ends, now)
    if now >= ends then
      return 0, ends, 0
    end
    return units, ends, units
  end,

  unused_at = function(_, _, _, _, ends)
    return ends
  end,

  refund = function(units, ends, cost)
    return units > cost and units - cost or 0, ends
  end,

  -- A state of other bounds is moved to those of the request.
  measure = function(_, burst)
    return window_begin(burst)
  end,

  fresh = function(s)
    s.step = window_begin(s.burst)
    s.b = s.step + s.period
  end,

  -- holds says whether the window of a request holds an instant.
  holds = function(burst, period, instant)
    local begins = window_begin(burst)
    return instant >= begins and instant < begins + period
  end,
}

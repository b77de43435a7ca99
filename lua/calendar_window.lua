-- Calendar window: windows of a calendar, whose bounds the caller computes, of count units each. What other limits have
-- as their burst says when the window begins: quarters of an hour since the epoch, and then 7 bits for people, which
-- only Go reads. The period is its length.
--
-- KEYS[1]  the store key. Its record has 30 bytes: the header, units 4. The second number of its state is when the
--          window ends
-- ARGV     a request as in decide.lua, which decides it
-- Returns  as decide.lua
-- Cost     one TIME and GETRANGE, and a SET for an allowed take. The key expires when the window ends.
-- Twin     pkg/limiter/store/fixed_window.go

local function window_begin(burst)
  return (burst - burst % 128) / 128 * 900000000
end

rules[7] = {
  magic = 0x524c04,
  format = 'I4',
  size = 30,
  max_period = 367 * 86400e6,

  sound = function(_, burst, _, units, ends, time)
    return units <= 1e9 and time >= window_begin(burst) and time < ends
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

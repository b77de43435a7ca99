-- Sliding counter: used = previous × (period − elapsed) ÷ period + current. The current units were used in the window
-- that holds time, the previous ones in the window before it. Windows are aligned to the epoch.
--
-- KEYS[1]  the store key. Its record has 34 bytes: the header, current 4, previous 4
-- ARGV     a request as in frame.lua, which also shows how it is decided by the functions below
-- Returns  as frame.lua: now, whether it is allowed, and the record
-- Cost     one TIME and GET, and a SET for an allowed take. The key expires after the window, or after the next one.
-- Twin     pkg/limiter/store/sliding_counter.go

local format, size = 'I4I4', 34

local function sound(count, burst, _, current, previous)
  return burst == count and current <= 1e9 and previous <= 1e9
end

local function at(_, period, time, current, previous, now)
  local elapsed = now % period
  local ahead = now - elapsed - (time - time % period)
  if ahead == period then
    current, previous = 0, current
  elseif ahead > period then
    return 0, 0, 0
  end
  local share, part = mul_div(period - elapsed, previous, period)
  return current, previous, share + (part > 0 and 1 or 0) + current
end

-- Units of the current window count, ever less, until the next one ends.
local function unused_at(_, period, time, current)
  local window_end = time - time % period + period
  return current > 0 and window_end + period or window_end
end

rules[5] = {
  format = format,
  size = size,
  sound = sound,
  at = at,
  unused_at = unused_at,

  refund = function(current, previous, cost)
    if cost <= current then
      return current - cost, previous
    end
    cost = cost - current
    return 0, previous > cost and previous - cost or 0
  end,

  -- What to refund so that exactly left stays.
  excess = function(period, current, previous, now, left)
    local in_view = period - now % period
    local share, part = mul_div(in_view, previous, period)
    share = share + (part > 0 and 1 or 0)
    if share <= left then
      return share + current - left
    end
    local stay = mul_div(period, left, in_view)
    return current + previous - stay
  end,
}

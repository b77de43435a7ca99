-- Sliding counter: used = previous × (period − elapsed) ÷ period + current. The
-- rule is explained in its twin, pkg/limiter/store/sliding_counter.go.
-- The current units were used in the window that holds time, the previous ones
-- in the window before.

local format, size = 'I4I4', SLIDING_COUNTER_SIZE

local function sound(count, burst, _, current, previous)
  return burst == count and current <= MAX_COUNT and previous <= MAX_COUNT
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

rules[SLIDING_COUNTER] = {
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

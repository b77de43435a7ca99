-- Sliding counter: used = previous × (period − elapsed) ÷ period + current. The
-- rule is explained in its twin, pkg/limiter/sliding_counter.go.
-- s.units (current) were used in the window that holds s.time, s.rest (previous)
-- in the one before.

-- windows returns what was used in the window before that of now and in that of
-- now, and when the latter began.
local function windows(s, now)
  local start = now - fmod(now, s.period)
  local ahead = start - (s.time - fmod(s.time, s.period))
  if ahead == 0 then
    return s.rest, s.units, start
  elseif ahead == s.period then
    return s.units, 0, start
  end
  return 0, 0, start
end

rules[5] = {
  load = function(s)
    if #s.raw ~= 34 then
      return false
    end
    s.units, s.rest = struct.unpack('>I4I4', s.raw, 27)
    return true
  end,

  new = function(s)
    s.units, s.rest = 0, 0
  end,

  used = function(s, now)
    local previous, current, start = windows(s, now)
    local share, part = mul_div(s.period - (now - start), previous, s.period)
    return share + (part > 0 and 1 or 0) + current
  end,

  charge = function(s, cost, now)
    local previous, current = windows(s, now)
    s.rest, s.units, s.time = previous, current + cost, now
  end,

  refund = function(s, cost, now)
    local previous, current = windows(s, now)
    local from_current = min(cost, current)
    s.rest, s.units, s.time = max(0, previous - (cost - from_current)), current - from_current, now
    return s.units == 0 and s.rest == 0
  end,

  -- Units of the current window count, ever less, until the next one ends.
  unused_at = function(s)
    local window_end = s.time - fmod(s.time, s.period) + s.period
    return s.units > 0 and window_end + s.period or window_end
  end,

  save = function(s, unused_at, now)
    s.raw = header(s) .. struct.pack('>I4I4', s.units, s.rest)
    set(s.key, s.raw, unused_at, now)
  end,
}

-- Fixed window: windows of one period, aligned to the epoch, of count units
-- each. The rule is explained in its twin, pkg/limiter/fixed_window.go.
-- s.units were used in the window that holds s.time.

local function window_end(s)
  return s.time - fmod(s.time, s.period) + s.period
end

local function used_in_window(s, now)
  return now < window_end(s) and s.units or 0
end

rules[3] = {
  load = function(s)
    if #s.raw ~= 30 then
      return false
    end
    s.units = struct.unpack('>I4', s.raw, 27)
    return true
  end,

  new = function(s)
    s.units = 0
  end,

  used = used_in_window,

  charge = function(s, cost, now)
    s.units, s.time = used_in_window(s, now) + cost, now
  end,

  refund = function(s, cost, now)
    s.units, s.time = max(0, used_in_window(s, now) - cost), now
    return s.units == 0
  end,

  unused_at = window_end,

  save = function(s, unused_at, now)
    s.raw = header(s) .. struct.pack('>I4', s.units)
    set(s.key, s.raw, unused_at, now)
  end,
}

-- Token bucket: the level rises by each cost and leaks at count ÷ period. The
-- rule is explained in its twin, pkg/limiter/token_bucket.go.
-- The level is units + rest ÷ period, exactly, as it was at s.time.

-- level returns what has not leaked at now.
local function level(s, now)
  local leaked, leaked_rest = mul_div(now - s.time, s.count, s.period)
  local units, rest = s.units - leaked, s.rest - leaked_rest
  if rest < 0 then
    units, rest = units - 1, rest + s.period
  end
  if units < 0 then
    return 0, 0
  end
  return units, rest
end

rules[1] = {
  load = function(s)
    if #s.raw ~= 37 then
      return false
    end
    s.units, s.rest = struct.unpack('>I4I7', s.raw, 27)
    return s.rest < s.period
  end,

  new = function(s)
    s.units, s.rest = 0, 0
  end,

  used = function(s, now)
    local units, rest = level(s, now)
    return rest > 0 and units + 1 or units
  end,

  charge = function(s, cost, now)
    local units, rest = level(s, now)
    s.units, s.rest, s.time = units + cost, rest, now
  end,

  refund = function(s, cost, now)
    local units, rest = level(s, now)
    s.units, s.rest, s.time = units - cost, rest, now
    if s.units < 0 then
      s.units, s.rest = 0, 0
    end
    return s.units == 0 and s.rest == 0
  end,

  -- The level is 0 after (units + rest ÷ period) × period ÷ count.
  unused_at = function(s)
    local wait, over = mul_div(s.units, s.period, s.count)
    local more, part = div(over + s.rest, s.count)
    return s.time + wait + more + (part > 0 and 1 or 0)
  end,

  save = function(s, unused_at, now)
    s.raw = header(s) .. struct.pack('>I4I7', s.units, s.rest)
    set(s.key, s.raw, unused_at, now)
  end,
}

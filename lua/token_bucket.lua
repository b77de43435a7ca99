-- Token bucket, and leaky bucket, whose delay changes no state: the level rises by each cost and leaks at count ÷
-- period. A cost that fits under the burst is allowed. The level is units + rest ÷ period, exactly, as it was at time.
--
-- KEYS[1]  the store key. Its record has 37 bytes: the header, units 4, rest 7
-- ARGV     a request as in frame.lua, which also shows how it is decided by the functions below
-- Returns  as frame.lua: now, whether it is allowed, and the record
-- Cost     one TIME and GET, and a SET for an allowed take. The key expires when the bucket is empty.
-- Twin     pkg/limiter/store/token_bucket.go

local format, size = 'I4I7', 37

local function sound(_, burst, period, units, rest)
  return burst >= 1 and burst <= 1e9 and rest < period and (units < burst or units == burst and rest == 0)
end

-- What has not leaked at now.
local function at(count, period, time, units, rest, now)
  local leaked, leaked_rest = mul_div(now - time, count, period)
  units, rest = units - leaked, rest - leaked_rest
  if rest < 0 then
    units, rest = units - 1, rest + period
  end
  if units < 0 then
    return 0, 0, 0
  end
  return units, rest, rest > 0 and units + 1 or units
end

-- The level is 0 after (units + rest ÷ period) × period ÷ count.
local function unused_at(count, period, time, units, rest)
  local wait, over = mul_div(period, units, count)
  over = over + rest
  local part = over % count
  return time + wait + (over - part) / count + (part > 0 and 1 or 0)
end

rules[1] = {
  has_burst = true,
  format = format,
  size = size,
  sound = sound,
  at = at,
  unused_at = unused_at,

  refund = function(units, rest, cost)
    if units < cost then
      return 0, 0
    end
    return units - cost, rest
  end,
}

rules[2] = rules[1] -- the leaky bucket

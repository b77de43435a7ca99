-- How decide.lua handles a state that is two numbers, by the functions of its rule,
-- which frame.lua lists. Rules of rings have these functions themselves (see ring.lua),
-- and two more:
--   fresh(s)     makes s an unused state
--   in_place(s)  says whether saving changes the record by range, so that SET is not
--                enough
local numbers = {}

-- load returns whether the state makes sense.
function numbers.load(s, size)
  local rule = s.rule
  if size ~= rule.size then
    return false
  end
  s.a, s.b = struct.unpack('>' .. rule.format, s.raw, 27)
  if rule.fresh then
    rule.fresh(s)
  end
  if s.overfull then
    local units = s.b > 0 and s.a + 1 or s.a
    return numbers.is_overfull(s) and s.burst >= 1 and s.burst <= 1e9 and s.b < s.period and units <= 1e9
      and mul_div(s.period, units, s.count) <= 36600 * 86400e6
  end
  return rule.sound(s.count, s.burst, s.period, s.a, s.b, s.time)
end

-- is_overfull returns whether s is a bucket whose level is above its burst, which its record's version
-- says.
function numbers.is_overfull(s)
  return s.rule.has_burst and (s.a > s.burst or s.a == s.burst and s.b > 0)
end

function numbers.used(s, instant)
  local _, _, units = s.rule.at(s.count, s.period, s.time, s.a, s.b, instant)
  return units
end

function numbers.charge(s, cost, instant)
  local a, b = s.rule.at(s.count, s.period, s.time, s.a, s.b, instant)
  s.a, s.b, s.time, s.raw = a + cost, b, instant, nil
end

-- refund returns whether anything is left.
function numbers.refund(s, cost, instant)
  local a, b = s.rule.at(s.count, s.period, s.time, s.a, s.b, instant)
  s.a, s.b = s.rule.refund(a, b, cost)
  s.time, s.raw = instant, nil
  return numbers.used(s, instant) > 0
end

-- excess returns how much to refund so that exactly left of in_use stays, for a rule
-- by which a unit can count for less than one.
function numbers.excess(s, left, instant)
  local a, b = s.rule.at(s.count, s.period, s.time, s.a, s.b, instant)
  return s.rule.excess(s.period, a, b, instant, left)
end

-- answer returns the record as it is now, for the caller.
function numbers.answer(s)
  if not s.raw then
    local begins = numbers.is_overfull(s) and 0x524c03 or s.rule.magic or magic
    s.raw = struct.pack('>I3BI4I4I7I7' .. s.rule.format, begins, s.kind, s.count, s.burst, s.period, s.time, s.a, s.b)
  end
  return s.raw
end

function numbers.save(s)
  local unused_at = s.rule.unused_at(s.count, s.period, s.time, s.a, s.b)
  redis.call('SET', s.key, s.raw, expires, milliseconds(unused_at - expires_from))
end

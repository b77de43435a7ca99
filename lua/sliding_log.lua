-- Sliding log: the time of every unit is kept for one period. An entry of its ring says until when how many units were
-- taken, so that units which were taken at once share one.
--
-- KEYS[1]  the store key. Its record is the header, head 4, length 4, base 3, and a ring (see ring.lua) of entries of
--          10 bytes: an instant 7, the sum of all units until then 3
-- ARGV     a request as in decide.lua, which decides it by the functions below
-- Returns  as decide.lua. The record is a digest of one or two entries.
-- Cost     O(log n) GETRANGE of an entry, and for an allowed take two SETRANGE, and now and then a rewrite of the ring.
--          The key expires when the newest entry leaves.
-- Twin     pkg/limiter/store/sliding_log.go

rules[4] = {
  load = ring_load, fresh = ring_fresh, charge = ring_charge, refund = ring_refund,
  in_place = ring_in_place, save = ring_save,
  header = 'I4I4I3',
  ring_at = 37,
  entry = '>I7I3',
  entry_size = 10,
  wrap = 2 ^ 56,
  modulus = 16777216,
  max_units = 1e6,

  measure = function(count, burst, period)
    if burst == count and count <= 1e6 then
      return 1, period
    end
  end,

  used = function(s, now)
    local _, gone = expired(s, now)
    return units_through(s, s.length - 1) - gone
  end,

  -- How much is used, when the newest unit leaves, and when enough have left to
  -- leave no more than room: one entry or two say it.
  answer = function(s, room, now)
    local function pack(at, sum, newest, newest_sum)
      local record = ring_header(s, 0, newest and 2 or 1, 0) .. struct.pack('>I7I3', at, sum)
      return newest and record .. struct.pack('>I7I3', newest, newest_sum) or record
    end
    if s.newest then -- just charged or refunded
      return pack(s.newest, (s.newest_sum - s.base) % s.rule.modulus)
    end
    local _, gone = expired(s, now)
    local all = units_through(s, s.length - 1)
    local in_use = all - gone
    if in_use == 0 then
      return ''
    end
    local newest = entry(s, s.length - 1)
    if in_use <= room then
      return pack(newest, in_use)
    end
    local blocking = entry(s, first_where(s, function(_, units)
      return units >= all - room
    end))
    if room == 0 then
      return pack(blocking, in_use)
    end
    return pack(blocking, in_use - room, newest, in_use)
  end,
}

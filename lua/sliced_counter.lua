-- Sliced counter: a sliding counter whose period is cut into slices. Units of whole slices in view count in full, and
-- those of the oldest by the share of it that is in view. What other limits have as their burst is how many slices.
--
-- KEYS[1]  the store key. Its record is the header, head 2, length 2, base 4, and a ring (see ring.lua) of entries of
--          6 bytes: a slice, by its number since the epoch 2, the sum of all units until its end 4
-- ARGV     a request as in decide.lua, which decides it by the functions below
-- Returns  as decide.lua. The record is a digest of at most four entries.
-- Cost     O(log n) GETRANGE of an entry, and for an allowed take two SETRANGE, and now and then a rewrite of the ring.
--          The key expires when the newest slice leaves.
-- Twin     pkg/limiter/store/sliced_counter.go

-- sliced_view returns what the oldest slice in view holds and what the later ones do,
-- the share of the oldest that counts, rounded up, and how much of it is in view.
local function sliced_view(s, now)
  local elapsed = now % s.step
  local fading = (now - elapsed) / s.step - s.span + 1
  local count, gone, newest, all = 0, 0, s.newest, s.newest_sum
  if not newest then
    count, gone = expired(s, now)
    if count == s.length then
      return 0, 0, 0, s.step - elapsed
    end
    newest, all = entry(s, s.length - 1)
  end
  local oldest, rest = 0, (all - s.base) % s.rule.modulus - gone
  if s.length - count == 1 then
    oldest = newest == fading and rest or 0
  else
    local at, sum = entry(s, count)
    oldest = at == fading and (sum - s.base) % s.rule.modulus - gone or 0
  end
  local share, part = mul_div(s.step - elapsed, oldest, s.step)
  return oldest, rest - oldest, share + (part > 0 and 1 or 0), s.step - elapsed
end

rules[6] = {
  load = ring_load, fresh = ring_fresh, charge = ring_charge, refund = ring_refund,
  in_place = ring_in_place, save = ring_save,
  magic = 0x524c02,
  header = 'I2I2I4',
  ring_at = 34,
  entry = '>I2I4',
  entry_size = 6,
  wrap = 65536,
  modulus = 4294967296,
  max_units = 2e9,

  measure = function(_, slices, period)
    if slices >= 2 and slices <= 3600 and period % slices == 0 then
      return period / slices, slices + 1
    end
  end,

  used = function(s, now)
    local _, rest, share = sliced_view(s, now)
    return share + rest
  end,

  -- What to refund so that exactly left stays.
  excess = function(s, left, now)
    local oldest, rest, share, in_view = sliced_view(s, now)
    if share <= left then
      return share + rest - left
    end
    local stay = mul_div(s.step, left, in_view)
    return rest + oldest - stay
  end,

  -- The oldest slice says how much is used, the newest when it is nothing, and the one
  -- that fades as room is reached, with all before it, when that is.
  answer = function(s, room, now)
    local oldest, rest, share = sliced_view(s, now)
    local entries, held = {}, 0
    local function add(at, through)
      if through > held then
        entries[#entries + 1] = struct.pack(s.rule.entry, at % s.rule.wrap, through)
        held = through
      end
    end
    local elapsed = now % s.step
    add((now - elapsed) / s.step - s.span + 1, oldest)
    local newest = s.newest
    if not newest and oldest + rest > 0 then
      newest = entry(s, s.length - 1)
      if share + rest > room then
        local all = units_through(s, s.length - 1)
        local gone = all - oldest - rest
        local blocking = first_where(s, function(_, units)
          return units >= all - room
        end)
        local at = entry(s, blocking)
        add(at - 1, units_through(s, blocking - 1) - gone)
        add(at, units_through(s, blocking) - gone)
      end
    end
    add(newest, oldest + rest)
    return #entries > 0 and ring_header(s, 0, #entries, 0) .. table.concat(entries) or ''
  end,
}

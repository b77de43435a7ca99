-- Adjusts keys independently of each other, as an operator's correction. The Go twin is Apply
-- in pkg/limiter/admin/keyspace.go.
--
-- KEYS     the keys to adjust, no two the same
-- ARGV[1]  'a', then for each key the limit and the units to leave in use, as decide.lua has
--          requests, then for each key the value that the caller has kept: its form 1, as in held.lua, and it
--          after its length 1
-- ARGV[2]  as in decide.lua
-- Returns  an array: a string with the units in use before 4 and after 4 of each key, then four
--          elements for each key that was left (its index in KEYS, what it holds, '', 0) or
--          that was changed and held another value than the caller has kept (its index, '',
--          the value, when it would have expired in ms since the epoch or -1)
-- Cost     one TIME, and for each key what decide.lua takes

-- before_change tells what a key holds that is about to be changed, unless the caller has it.
local function before_change(i, s, form, kept)
  if form == '-' then
    return
  end
  local value = #s.raw < 512 and s.raw or redis.call('GET', s.key)
  if not stands_for(form, kept, value) then
    tell(i, '', value, expires_at(s.key))
  end
end

-- adjusted returns what becomes of the state of r, of KEYS[i], false if that is unused.
local function adjusted(r, i, left)
  local s, in_use = r.state, used(r)
  if in_use < left then
    return charged(r, i, left - in_use)
  end
  local excess = s.rule.excess and s.how.excess(s, left, r.instant) or in_use - left
  return s.how.refund(s, excess, r.instant) and s
end

local whole, in_place, emptied, units = {}, {}, {}, {}
local next_kept = 2 + 20 * #KEYS
for i = 1, #KEYS do
  local form, kept
  form, kept, next_kept = struct.unpack('>c1Bc0', ARGV[1], next_kept)
  local r = request(i)
  local failure = load(r, i)
  local what = failure and string.match(failure.err, '^FOREIGN %d+ (.*)$')
  if what then
    tell(i, what, '', 0)
    units[i] = struct.pack('>I4I4', 0, 0)
  elseif failure then
    return failure
  else
    local before, in_use = r.state, used(r)
    local left = r.cost
    if in_use ~= left then
      if before then
        before_change(i, before, form, kept)
      end
      local after = adjusted(r, i, left)
      if after and not after.raw then
        after.how.answer(after) -- packs the record
      end
      local kind = not after and emptied or after.how.in_place and after.how.in_place(after) and in_place or whole
      kind[#kind + 1] = after or before
    end
    units[i] = struct.pack('>I4I4', in_use, left)
  end
end
store(whole, in_place, emptied)
reply[1] = table.concat(units)
return reply

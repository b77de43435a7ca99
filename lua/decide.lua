-- Decides requests against the states of their keys at one instant, all or
-- nothing. The Go twin is Decide in pkg/limiter/store/decision.go.
--
-- KEYS     the store key of each request, no two the same
-- ARGV[1]  op 1 ('t' take, 'p' peek, which writes nothing, 'r' refund, 'a' adjust:
--          bring usage to exactly the cost), then each request in 20 bytes,
--          big-endian: kind 1 (+ 128 for a shadow, which is charged if it fits and
--          keeps no other from being charged), count 4, burst, slices or window 4,
--          period 7 (µs), cost 4
-- ARGV[2]  now in µs, instead of the server's clock; for tests and simulation. Missing or '' else
-- ARGV[3]  for each request the units 4 that it leaves to others: it is allowed if used + cost + leave is
--          within the capacity. Missing if none leaves any
-- Returns  a string: now 7, then for each request: allowed 1 (0 or 1), length 1,
--          and that many bytes of the record as it is now, none if unused. The
--          caller derives the rest from it. Of a ring the record is a digest. After
--          that, of a refund, the units 4 that it gave back.
-- Errors   'FOREIGN <request> <what the key holds>': not a record of ours. 'COMPLETE':
--          a record of a kind that this script was not put together for. 'WINDOW <request>
--          <instant> <now>': the window of that request does not hold that instant.
--          After an error nothing has been written.
-- Cost     one TIME, and for each request one GETRANGE and one SET; for a ring
--          O(log n) GETRANGEs of an entry, 2 SETRANGEs, and now and then a rewrite
--          of it

local op = string.sub(ARGV[1], 1, 1)

local states, allowed, all_allowed = {}, {}, true
for i = 1, #KEYS do
  local s, failure = load(i)
  if failure then
    return failure
  end
  states[i] = s
  local _, _, _, _, cost, capacity, shadow = request(i)
  allowed[i] = op == 'r' or op == 'a' or used(s) + cost <= capacity
  all_allowed = all_allowed and (allowed[i] or shadow)
end

-- change returns what op makes of the state s of KEYS[i], false if that is unused,
-- and whether it differs.
local function change(s, i)
  local _, _, _, _, cost = request(i)
  if op == 't' and all_allowed and allowed[i] then
    return charged(s, i, cost), true
  elseif op == 'r' and s then
    return s.how.refund(s, cost, math.max(now, s.time)) and s, true
  elseif op == 'a' then
    local in_use, instant = used(s), s and math.max(now, s.time)
    if in_use < cost then
      return charged(s, i, cost - in_use), true
    elseif in_use > cost then
      local excess = s.rule.excess and s.how.excess(s, cost, instant) or in_use - cost
      return s.how.refund(s, excess, instant) and s, true
    end
  end
  return s, false
end

local whole, in_place, emptied = {}, {}, {}
local reply = { struct.pack('>I7', now) }
for i = 1, #KEYS do
  local before = states[i]
  local refunded = ''
  if op == 'r' then
    local _, _, _, _, cost = request(i)
    refunded = struct.pack('>I4', math.min(cost, used(before)))
  end
  local s, changed = change(before, i)
  if changed then
    local kind = not s and emptied or s.how.in_place and s.how.in_place(s) and in_place or whole
    kind[#kind + 1] = s or before
  end
  local record = ''
  if s then
    local _, _, _, _, cost, capacity = request(i)
    record = s.how.answer(s, math.max(0, capacity - cost), math.max(now, s.time))
  end
  reply[i + 1] = struct.pack('>BB', allowed[i] and 1 or 0, #record) .. record .. refunded
end
store(whole, in_place, emptied)
return table.concat(reply)

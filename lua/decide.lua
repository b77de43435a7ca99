-- Decides requests against the states of their keys at one instant, all or nothing: any operation, with any
-- algorithms. The Go twin is Decide in pkg/limiter/store.
--
-- KEYS     the store key of each request, no two the same, and then that of the token, if there is one
-- ARGV[1]  op 1: 't' take, 'p' peek, which writes nothing, 'r' refund, 'a' adjust: bring usage to exactly the cost,
--          'c' charge, which need not fit, 'u' take up to the cost, 's' settle: what was charged with the token becomes
--          the cost. Then each request in 20 bytes, as in frame.lua: kind (+ 128 for a shadow, which is charged if it
--          fits and keeps no other from being charged), count, burst, period, cost. With a token: how long to remember
--          it 7 (µs), the digest of keys and limits 16, and attempt 8: not zero in a call over several slots. A refund
--          then gives back only what that attempt answers for. At the end of a refund that must not come late: not
--          after 7 (µs). With the clock or a key's last charge past it, nothing changes.
-- ARGV[2]  now, as in frame.lua
-- ARGV[3]  what each request leaves 4, as in frame.lua
-- Returns  a string: now 7, whether this repeats what was done before 1 (0 or 1), then for each request: allowed 1,
--          granted (or given back) 4, turn 7 (when a leaky bucket lets it go, else 0), length 1, and that many bytes
--          of the record as it is now, none if unused. Of a ring the record is a digest.
-- Errors   'FOREIGN <request> <what the key holds>': not a record of ours, the token's key being the last request.
--          'COMPLETE': a record of an algorithm that this script does not have. 'WINDOW <request> <instant> <now>':
--          the window of that request does not hold that instant. 'USAGE <request> <units>': so many units cannot
--          be in use. 'TOKEN unknown', 'TOKEN key', 'TOKEN op <op>', 'TOKEN cost <request> <cost>' and 'TOKEN
--          settled <request> <cost>': what the token is remembered for instead.
--          After an error nothing has been written.
-- Cost     one TIME, and for each request one GETRANGE and one SET; for a ring O(log n) GETRANGEs of an entry, 2
--          SETRANGEs, and now and then a rewrite of it. With a token one GETRANGE, and one SET if that is new

local op = string.sub(ARGV[1], 1, 1)
local count, token, ttl, digest, attempt, not_after = #KEYS, nil, nil, nil, nil, nil
local rest = (#ARGV[1] - 1) % 20 -- what comes after the requests: 31 bytes of a token, 7 of an instant
if rest == 31 % 20 or rest == (31 + 7) % 20 then
  token, count = KEYS[count], count - 1
  ttl, digest, attempt = struct.unpack('>I7c16c8', ARGV[1], count * 20 + 2)
end
if rest == 7 or rest == (31 + 7) % 20 then
  not_after = struct.unpack('>I7', ARGV[1], #ARGV[1] - 6)
end

local requests, late = {}, false
for i = 1, count do
  local r = request(i)
  local failure = load(r, i)
  if failure then
    return failure
  end
  requests[i] = r
  late = late or not_after and r.instant > not_after
end

-- What is remembered of the token: see TokenRecord in pkg/limiter/store/token.go. mine says that this call's attempt
-- answers for it. parts has for each request: cost, granted, real, turn.
local remembered, remembered_op, settled, until_when, responsible, mine, parts, recall, remember
if token then
  parts, mine = {}, attempt == '\0\0\0\0\0\0\0\0'

  -- recall reads it, and returns an error reply if that is for something else than this call.
  function recall()
    local raw = redis.pcall('GETRANGE', token, '0', '1252')
    if type(raw) == 'table' then
      if not string.find(raw.err, 'WRONGTYPE', 1, true) then
        return raw
      end
      return foreign(count + 1, 'a value of another type, which is not the record of a token')
    elseif raw == '' then
      return nil
    elseif #raw < 36 or string.sub(raw, 1, 2) ~= 'RT' then
      return foreign(count + 1, #raw .. ' bytes that are not the record of a token')
    end
    local begins, by, is_settled, ends, of, who = struct.unpack('>I3c1BI7c16c8', raw)
    if begins ~= 0x525401 then
      local version = begins % 256
      return foreign(count + 1, 'the record of a token in version ' .. version .. ', which this limitctl does not know')
    elseif ends <= now then
      return nil
    elseif of ~= digest or #raw ~= 36 + count * 19 then
      return { err = 'TOKEN key' }
    elseif op ~= 's' and op ~= 'r' and by ~= op and not (op == 'p' and by == 't') then
      return { err = 'TOKEN op ' .. by }
    end
    for i, r in ipairs(requests) do
      local part = { struct.unpack('>I4I4I4I7', raw, 36 + i * 19 - 18) }
      if op ~= 's' and part[1] ~= r.cost then
        return { err = string.format('TOKEN cost %d %.0f', i, part[1]) }
      end
      part.charges = not r.shadow or part[2] > 0
      if op == 's' and is_settled == 1 and part.charges and part[3] ~= r.cost then
        return { err = string.format('TOKEN settled %d %.0f', i, part[3]) }
      end
      parts[i] = part
    end
    remembered, remembered_op, settled, until_when, responsible = true, by, is_settled == 1, ends, who
    mine = mine or attempt == responsible
  end

  -- remember writes what the token stands for from now on.
  function remember(by, is_settled, ends, who)
    local record = { struct.pack('>I3c1BI7c16c8', 0x525401, by, is_settled and 1 or 0, ends, digest, who) }
    for i, r in ipairs(requests) do
      local part = parts[i] or { r.cost, 0, 0, 0 }
      record[i + 1] = struct.pack('>I4I4I4I7', part[1], part[2], part[3], part[4])
    end
    redis.call('SET', token, table.concat(record), expires, milliseconds(ends - expires_from))
  end

  local failure = recall()
  if failure then
    return failure
  end
end
if op == 's' and not remembered then
  return { err = 'TOKEN unknown' }
end

-- The amount that each request is to be charged, or given back if that is below 0, and whether it is allowed.
if late then
  for _, r in ipairs(requests) do
    r.amount, r.allowed = 0, false
  end
elseif remembered then
  for i, r in ipairs(requests) do
    local part = parts[i]
    r.amount, r.allowed = 0, op == 'r' or op == 's' or part[2] > 0
    if op == 'r' and mine then
      r.amount = settled and -part[3] or -part[2]
    elseif op == 's' and not settled and part.charges then
      r.amount = r.cost - part[2]
      part[3] = r.cost
    end
  end
elseif op == 't' or op == 'p' then
  local all_allowed = true
  for i = 1, count do
    local r = requests[i]
    r.amount, r.allowed = 0, used(r) + r.cost <= r.capacity
    all_allowed = all_allowed and (r.allowed or r.shadow)
  end
  for i = 1, op == 't' and all_allowed and count or 0 do
    local r = requests[i]
    r.amount = r.allowed and r.cost or 0
  end
elseif op == 'u' then
  local fits
  for _, r in ipairs(requests) do
    r.room = math.max(0, r.capacity - used(r))
    fits = math.min(fits or r.cost, r.shadow and r.cost or r.room)
  end
  for _, r in ipairs(requests) do
    r.amount, r.allowed = math.min(fits, r.room), r.room > 0
  end
else
  for _, r in ipairs(requests) do
    r.amount, r.allowed = r.cost, true
    if op == 'a' then
      local s = r.state
      r.amount = r.cost - used(r)
      if r.amount < 0 and s.rule.excess then
        r.amount = -s.how.excess(s, r.cost, r.instant)
      end
    elseif op == 'r' then
      r.amount = token and 0 or -r.cost
    end
  end
end

if op == 'c' or op == 's' then
  for i, r in ipairs(requests) do
    if r.amount > 0 then
      local units = used(r) + r.amount
      if units > (r.kind == 4 and 1e6 or 1e9)
        or r.rule.has_burst and mul_div(r.period, units, r.count) > 36600 * 86400e6 then
        return { err = string.format('USAGE %d %.0f', i, units) }
      end
    end
  end
end

local whole, in_place, emptied, charges = {}, {}, {}, false
local repeats = remembered and op ~= 'r' and (op ~= 's' or settled)
local reply = { struct.pack('>I7B', now, repeats and 1 or 0) }
for i = 1, count do
  local r = requests[i]
  local s, amount, granted, turn, record = r.state, r.amount, 0, 0, ''
  local changed
  if amount > 0 then
    granted, s = amount, charged(r, i, amount)
    changed = s
  elseif amount < 0 and s then
    granted, changed = op == 'r' and math.min(-amount, used(r)) or 0, s
    s = s.how.refund(s, -amount, r.instant) and s
  end
  if changed then
    local kind = not s and emptied or s.how.in_place and s.how.in_place(s) and in_place or whole
    kind[#kind + 1] = changed
  end
  if remembered and op ~= 'r' then
    granted, turn = parts[i][op == 's' and 3 or 2], op ~= 's' and parts[i][4] or 0
  elseif amount > 0 then
    charges = true
    if r.kind == 2 then -- a leaky bucket: it waits until all before it has left
      turn = r.rule.unused_at(r.count, r.period, s.time, s.a - amount, s.b)
    end
    if token then
      parts[i] = { r.cost, amount, 0, turn }
    end
  end
  if s then
    local room = math.max(0, r.capacity - (op == 'u' and 1 or r.cost))
    record = s.how.answer(s, room, s.time > now and s.time or now)
  end
  reply[i + 1] = struct.pack('>BI4I7B', r.allowed and 1 or 0, granted, turn, #record) .. record
end

if token and op ~= 'p' and not late then
  if remembered and op == 'r' then
    if mine then
      remove(token, '')
    end
  elseif remembered and op == 's' and not settled then
    remember(remembered_op, true, until_when, responsible)
  elseif remembered and op ~= 's' and attempt ~= '\0\0\0\0\0\0\0\0' then
    remember(remembered_op, settled, until_when, attempt)
  elseif charges then
    remember(op, false, now + ttl, attempt)
  end
end
store(whole, in_place, emptied)
return table.concat(reply)

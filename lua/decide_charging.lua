-- Decides what is not usual, in requests against the states of their keys at one instant: a
-- charge that need not fit, the settlement of a real cost, a take of what fits, a refund
-- that must not come late, and anything with a token. The Go twin is DecideCharging in pkg/limiter/store/charging.go.
--
-- KEYS     the store key of each request, no two the same, and then that of the token, if
--          there is one
-- ARGV[1]  op 1 ('t' take, 'p' peek, which writes nothing, 'r' refund, 'c' charge, 's'
--          settle, 'u' take up to the cost), each request as in decide.lua, and with a
--          token: how long to remember it 7 (µs), the digest of keys and limits 16, and
--          attempt 8: not zero in a call over several slots. A refund then gives back only
--          what that attempt answers for. At the end of a refund that must not come late:
--          not after 7 (µs). With the clock or a key's last charge past it, nothing changes.
-- ARGV[2]  and ARGV[3] as in decide.lua
-- Returns  a string: now 7, whether this repeats what was done before 1 (0 or 1), then for each
--          request: allowed 1, granted (or given back) 4, turn 7 (when a leaky bucket lets it go, else 0),
--          and length and record as in decide.lua
-- Errors   FOREIGN and COMPLETE as in decide.lua, the token's key being the last request.
--          'USAGE <request> <units>': so many units cannot be in use. 'TOKEN unknown',
--          'TOKEN key', 'TOKEN op <op>', 'TOKEN cost <request> <cost>' and 'TOKEN settled
--          <request> <cost>': what the token is remembered for instead.
--          After an error nothing has been written.
-- Cost     as decide.lua, and with a token one GETRANGE, and one SET if that is new

local op = string.sub(ARGV[1], 1, 1)
local requests, token, ttl, digest, attempt, not_after = #KEYS, nil, nil, nil, nil, nil
local rest = (#ARGV[1] - 1) % 20 -- what comes after the requests: 31 bytes of a token, 7 of an instant
if rest == 31 % 20 or rest == (31 + 7) % 20 then
  token, requests = KEYS[requests], requests - 1
  ttl, digest, attempt = struct.unpack('>I7c16c8', ARGV[1], requests * 20 + 2)
end
if rest == 7 or rest == (31 + 7) % 20 then
  not_after = struct.unpack('>I7', ARGV[1], #ARGV[1] - 6)
end
local no_attempt = string.rep('\0', 8)

local states = {}
for i = 1, requests do
  local s, failure = load(i)
  if failure then
    return failure
  end
  states[i] = s
end

local late = false
for i = 1, not_after and requests or 0 do
  local s = states[i]
  late = late or (s and math.max(now, s.time) or now) > not_after
end

local function token_error(text)
  return { err = 'TOKEN ' .. text }
end

-- parts has for each request: cost, granted, real, turn; see TokenRecord in
-- pkg/limiter/store/token.go.
local remembered, settled, remembered_op, expires, responsible
local parts = {}

-- recall reads what is remembered of the token, and returns an error reply if that is for
-- something else than this call.
local function recall()
  local raw = redis.pcall('GETRANGE', token, '0', 'TOKEN_END')
  if type(raw) == 'table' then
    if not string.find(raw.err, 'WRONGTYPE', 1, true) then
      return { err = raw.err .. ' (GETRANGE)' }
    end
    local _, failure = foreign(requests + 1, 'a value of another type, which is not the record of a token')
    return failure
  end
  if raw == '' then
    return nil
  end
  if #raw < TOKEN_HEADER_SIZE or string.sub(raw, 1, 2) ~= 'RT' then
    local _, failure = foreign(requests + 1, #raw .. ' bytes that are not the record of a token')
    return failure
  end
  local begins, is_settled, remembered_digest
  begins, remembered_op, is_settled, expires, remembered_digest, responsible = struct.unpack('>I3c1BI7c16c8', raw)
  if begins ~= TOKEN_MAGIC then
    local _, failure = foreign(requests + 1, 'the record of a token in version ' .. begins % 256 .. ', which this limitctl does not know')
    return failure
  end
  if expires <= now then
    return nil
  end
  if remembered_digest ~= digest or #raw ~= TOKEN_HEADER_SIZE + requests * TOKEN_PART_SIZE then
    return token_error('key')
  end
  if op ~= 's' and op ~= 'r' and remembered_op ~= op and not (op == 'p' and remembered_op == 't') then
    return token_error('op ' .. remembered_op)
  end
  settled = is_settled == 1
  for i = 1, requests do
    local part = { struct.unpack('>I4I4I4I7', raw, TOKEN_HEADER_SIZE + (i - 1) * TOKEN_PART_SIZE + 1) }
    local _, _, _, _, cost, _, shadow = request(i)
    if op ~= 's' and part[1] ~= cost then
      return token_error(string.format('cost %d %.0f', i, part[1]))
    end
    part.charges = not shadow or part[2] > 0
    if op == 's' and settled and part.charges and part[3] ~= cost then
      return token_error(string.format('settled %d %.0f', i, part[3]))
    end
    parts[i] = part
  end
  remembered = true
end

if token then
  local failure = recall()
  if failure then
    return failure
  end
end
if op == 's' and not remembered then
  return token_error('unknown')
end

-- What each request is to be charged, or given back if that is below 0, and whether it is
-- allowed.
local amounts, allowed = {}, {}
if late then
  for i = 1, requests do
    amounts[i], allowed[i] = 0, false
  end
elseif remembered then
  for i = 1, requests do
    local part = parts[i]
    local _, _, _, _, cost = request(i)
    amounts[i], allowed[i] = 0, op == 'r' or op == 's' or part[2] > 0
    if op == 'r' and (attempt == no_attempt or attempt == responsible) then
      amounts[i] = settled and -part[3] or -part[2]
    elseif op == 's' and not settled and part.charges then
      amounts[i] = cost - part[2]
      part[3] = cost
    end
  end
elseif op == 'u' then
  local fits, rooms, _ = nil, {}, nil
  for i = 1, requests do
    local _, _, _, _, cost, capacity, shadow = request(i)
    rooms[i] = math.max(0, capacity - used(states[i]))
    fits = math.min(fits or cost, shadow and cost or rooms[i])
  end
  for i = 1, requests do
    amounts[i], allowed[i] = math.min(fits, rooms[i]), rooms[i] > 0
  end
else
  local all_allowed = true
  for i = 1, requests do
    local _, _, _, _, cost, capacity, shadow = request(i)
    allowed[i] = op == 'c' or op == 'r' or used(states[i]) + cost <= capacity
    all_allowed = all_allowed and (allowed[i] or shadow)
  end
  for i = 1, requests do
    local _, _, _, _, cost = request(i)
    amounts[i] = (op == 'c' or op == 't' and all_allowed and allowed[i]) and cost or op == 'r' and not token and -cost or 0
  end
end

if op == 'c' or op == 's' then
  for i = 1, requests do
    if amounts[i] > 0 then
      local kind, count, _, period = request(i)
      local units = used(states[i]) + amounts[i]
      if units > (kind == SLIDING_LOG and SLIDING_LOG_MAX_COUNT or MAX_COUNT)
        or rules[kind].has_burst and mul_div(period, units, count) > MAX_DRAIN then
        return { err = string.format('USAGE %d %.0f', i, units) }
      end
    end
  end
end

local whole, in_place, emptied = {}, {}, {}
local repeats = remembered and op ~= 'r' and (op ~= 's' or settled)
local reply, charges = { struct.pack('>I7B', now, repeats and 1 or 0) }, false
for i = 1, requests do
  local s, amount = states[i], amounts[i]
  local before, refunded = s, 0
  if amount > 0 then
    s = charged(s, i, amount)
  elseif op == 'r' then
    refunded = math.min(-amount, used(s))
  end
  if amount < 0 and s then
    s = s.how.refund(s, -amount, math.max(now, s.time)) and s
  end
  if amount ~= 0 and (s or before) then
    local kind = not s and emptied or s.how.in_place and s.how.in_place(s) and in_place or whole
    kind[#kind + 1] = s or before
  end
  local kind, count, _, period, cost, capacity = request(i)
  local turn, granted = 0, op == 'r' and refunded or math.max(0, amount)
  if remembered and op ~= 'r' then
    granted, turn = parts[i][op == 's' and 3 or 2], op ~= 's' and parts[i][4] or 0
  elseif amount > 0 then
    charges = true
    if kind == LEAKY_BUCKET then -- it waits until all before it has left
      turn = rules[kind].unused_at(count, period, s.time, s.a - amount, s.b)
    end
    parts[i] = { cost, amount, 0, turn }
  end
  local record = ''
  if s then
    record = s.how.answer(s, math.max(0, capacity - (op == 'u' and 1 or cost)), math.max(now, s.time))
  end
  reply[i + 1] = struct.pack('>BI4I7B', allowed[i] and 1 or 0, granted, turn, #record) .. record
end

-- remember writes what the token stands for from now on.
local function remember(by, was_settled, until_when, who)
  local record = { struct.pack('>I3c1BI7c16c8', TOKEN_MAGIC, by, was_settled, until_when, digest, who) }
  for i = 1, requests do
    local _, _, _, _, cost = request(i)
    local part = parts[i] or { cost, 0, 0, 0 }
    record[i + 1] = struct.pack('>I4I4I4I7', part[1], part[2], part[3], part[4])
  end
  set(token, table.concat(record), until_when)
end

if token and op ~= 'p' and not late then
  if remembered and op == 'r' then
    if attempt == no_attempt or attempt == responsible then
      if type(redis.pcall('DEL', token)) ~= 'number' then -- who lacks the right to DEL has that to SET
        set(token, '', now + 1)
      end
    end
  elseif remembered and op == 's' and not settled then
    remember(remembered_op, 1, expires, responsible)
  elseif remembered and op ~= 's' and attempt ~= no_attempt then
    remember(remembered_op, settled and 1 or 0, expires, attempt)
  elseif charges then
    remember(op, 0, now + ttl, attempt)
  end
end
store(whole, in_place, emptied)
return table.concat(reply)

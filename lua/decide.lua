-- Decides requests against the states of their keys at one instant, all or
-- nothing. The Go twin is Decide in pkg/limiter/decision.go.
--
-- KEYS     the store key of each request, no two the same
-- ARGV[1]  op 1 ('t' take, 'p' peek, which writes nothing, 'r' refund, 'a' adjust:
--          bring usage to exactly the cost), then each request in 20 bytes,
--          big-endian: kind 1 (+ 128 for a shadow, which is charged if it fits and
--          keeps no other from being charged), count 4, burst 4, period 7 (µs),
--          cost 4
-- ARGV[2]  now in µs, instead of the server's clock; for tests and simulation
-- Returns  a string: now 7, then for each request: allowed 1 (0 or 1), length 1,
--          and that many bytes of the record as it is now, none if unused. The
--          caller derives the rest from it. Of a ring the record is a digest.
-- Errors   'FOREIGN <request> <what the key holds>': not a record of ours. 'COMPLETE':
--          a record of a kind that this script was not put together for.
--          After an error nothing has been written.
-- Cost     one TIME, and for each request one GETRANGE and one SET; for a ring
--          O(log n) GETRANGEs of an entry, 2 SETRANGEs, and now and then a rewrite
--          of it

local op = string.sub(ARGV[1], 1, 1)

-- request returns kind, count, burst, period, cost and capacity of KEYS[i], and
-- whether it is a shadow.
local function request(i)
  local kind, count, burst, period, cost = struct.unpack('>BI4I4I7I4', ARGV[1], i * 20 - 18)
  local shadow = kind >= 128
  if shadow then
    kind = kind - 128
  end
  return kind, count, burst, period, cost, rules[kind].has_burst and burst or count, shadow
end

local function foreign(i, holds)
  return nil, { err = 'FOREIGN ' .. i .. ' ' .. holds }
end

-- load reads the state of KEYS[i]: a table, false if unused, or nil and an error
-- reply. The table has the fields of the record's header, the rule of its kind, and
-- how to handle it.
local function load(i)
  local key = KEYS[i]
  local raw = redis.pcall('GETRANGE', key, '0', 'HEAD_END') -- all records but large logs
  if type(raw) == 'table' then
    if string.find(raw.err, 'WRONGTYPE', 1, true) then
      local kind = redis.pcall('TYPE', key)
      return foreign(i, 'a ' .. (kind.ok or 'value of another type') .. ', which is not a limit record')
    end
    return nil, { err = raw.err .. ' (GETRANGE)' }
  end
  if raw == '' and redis.call('EXISTS', key) == 0 then
    return false
  end
  local size = #raw
  if size == HEAD_SIZE then
    size = redis.call('STRLEN', key)
  end
  if size < RECORD_HEADER_SIZE or string.sub(raw, 1, 2) ~= 'RL' then
    return foreign(i, string.format('%.0f', size) .. ' bytes that are not a limit record')
  end
  local version, kind, count, burst, period, time = struct.unpack('>BBI4I4I7I7', raw, 3)
  local rule = rules[kind]
  if not rule and kind >= FIRST_KIND and kind <= LAST_KIND then
    return nil, { err = 'COMPLETE' }
  end
  if version ~= (rule and rule.magic or magic) % 256 then
    return foreign(i, 'a limit record of version ' .. version .. ', which this limitctl does not know')
  end
  if rule and count >= 1 and count <= MAX_COUNT and period >= MIN_PERIOD and period <= MAX_PERIOD and time <= MAX_INSTANT then
    local how = rule.load and rule or numbers -- see numbers.lua
    local s = { kind = kind, rule = rule, how = how, count = count, burst = burst, period = period, time = time, raw = raw, key = key }
    if how.load(s, size) then
      return s
    end
  end
  return foreign(i, 'a damaged limit record')
end

-- charged returns the state s of KEYS[i] with cost added, under the request's
-- limit.
local function charged(s, i, cost)
  local kind, count, burst, period = request(i)
  local instant = s and math.max(now, s.time) or now
  local rule = rules[kind]
  if not s or s.kind ~= kind or s.period ~= period or rule.measure and rule.measure(count, burst, period) ~= s.step then
    if s then -- usage is kept, its age is not
      cost = cost + s.how.used(s, instant)
    end
    s = { key = KEYS[i], kind = kind, rule = rule, how = rule.load and rule or numbers, a = 0, b = 0 }
    s.count, s.burst, s.period, s.time = count, burst, period, instant
    if rule.fresh then
      rule.fresh(s)
    end
  end
  s.how.charge(s, cost, instant)
  s.count, s.burst = count, burst
  return s
end

local function used(s)
  return s and s.how.used(s, math.max(now, s.time)) or 0
end

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
  reply[i + 1] = struct.pack('>BB', allowed[i] and 1 or 0, #record) .. record
end
-- What needs SET goes first: should that right be missing, nothing is written, and
-- what comes after can do with it.
for _, s in ipairs(whole) do
  s.how.save(s, now)
end
for _, s in ipairs(in_place) do
  s.how.save(s, now)
end
for _, s in ipairs(emptied) do -- who lacks the right to DEL has that to SET
  if type(redis.pcall('DEL', s.key)) ~= 'number' then
    set(s.key, struct.pack('>I3BI4I4I7I7I4', magic, FIXED_WINDOW, s.count, s.count, s.period, s.time, 0), now + 1)
  end
end
return table.concat(reply)

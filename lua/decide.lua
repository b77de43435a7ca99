-- Decides requests against the states of their keys at one instant, all or
-- nothing. The Go twin is Decide in pkg/limiter/decision.go.
--
-- KEYS     the store key of each request, no two the same
-- ARGV[1]  op 1 ('t' take, 'p' peek, which writes nothing, 'r' refund, 'a' adjust:
--          bring usage to exactly the cost), then each request in 20 bytes,
--          big-endian: algorithm 1 (+ 128 for a shadow, which is charged if it
--          fits and keeps no other from being charged), count 4, burst 4,
--          period 7 (µs), cost 4
-- ARGV[2]  now in µs, instead of the server's clock; for tests and simulation
-- Returns  a string: now 7, then for each request: allowed 1 (0 or 1), length 1,
--          and that many bytes of the record as it is now, none if unused. The
--          caller derives the rest from it. A log's record is a digest.
-- Errors   'FOREIGN <request> <what the key holds>': not a record of ours.
--          After an error nothing has been written.
-- Cost     one TIME, and for each request one GETRANGE and one SET; for a sliding
--          log O(log n) GETRANGEs of 10 bytes, 2 SETRANGEs, and now and then a
--          rewrite of the ring

local op = string.sub(ARGV[1], 1, 1)
local now = tonumber(simulated)
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end

rules[2] = rules[1] -- a leaky bucket's state is a token bucket's

-- request returns algorithm, count, burst, period, cost and capacity of KEYS[i],
-- and whether it is a shadow.
local function request(i)
  local algorithm, count, burst, period, cost = struct.unpack('>BI4I4I7I4', ARGV[1], i * 20 - 18)
  local shadow = algorithm >= 128
  if shadow then
    algorithm = algorithm - 128
  end
  return algorithm, count, burst, period, cost, algorithm <= 2 and burst or count, shadow
end

local function foreign(i, holds)
  return nil, { err = 'FOREIGN ' .. i .. ' ' .. holds }
end

-- load reads the state of KEYS[i]: a table, false if unused, or nil and an error
-- reply. The table has the fields of the record's header; algorithms but the log
-- have a and b.
local function load(i)
  local key = KEYS[i]
  local raw = redis.pcall('GETRANGE', key, '0', '511') -- all records but large logs
  if type(raw) == 'table' then
    if string.find(raw.err, 'WRONGTYPE', 1, true) then
      local kind = redis.pcall('TYPE', key)
      return foreign(i, 'a ' .. (kind.ok or 'value of another type') .. ', which is no limit record')
    end
    return nil, { err = raw.err .. ' (GETRANGE)' }
  end
  if raw == '' and redis.call('EXISTS', key) == 0 then
    return false
  end
  local size = #raw
  if size == 512 then
    size = redis.call('STRLEN', key)
  end
  if size < 26 or string.sub(raw, 1, 2) ~= 'RL' then
    return foreign(i, string.format('%.0f', size) .. ' bytes that are no limit record')
  end
  local version, algorithm, count, burst, period, time = struct.unpack('>BBI4I4I7I7', raw, 3)
  if version ~= 1 then
    return foreign(i, 'a limit record of version ' .. version .. ', which this limitctl does not know')
  end
  local s = { algorithm = algorithm, count = count, burst = burst, period = period, time = time, raw = raw, key = key }
  local rule = rules[algorithm]
  if rule and size == rule.size then
    s.a, s.b = struct.unpack('>' .. rule.format, raw, 27)
    if algorithm == 3 then
      s.b = 0 -- a window has one number; unpack goes on with a position
    end
    if sound(algorithm, count, burst, period, time, s.a, s.b) then
      return s
    end
  elseif algorithm == 4 and sound(algorithm, count, burst, period, time, 0, 0) and log_load(s, size) then
    return s
  end
  return foreign(i, 'a damaged limit record')
end

local function used(s, instant)
  if s.algorithm == 4 then
    return log_used(s, instant)
  end
  local _, _, units = rules[s.algorithm].at(s.count, s.period, s.time, s.a, s.b, instant)
  return units
end

local function save(s)
  if s.algorithm == 4 then
    return log_save(s, now)
  end
  local rule = rules[s.algorithm]
  s.raw = struct.pack('>I3BI4I4I7I7' .. rule.format, magic, s.algorithm, s.count, s.burst, s.period, s.time, s.a, s.b)
  set(s.key, s.raw, rule.unused_at(s.count, s.period, s.time, s.a, s.b), now)
end

local function updates_in_place(s)
  return s.algorithm == 4 and not log_is_rewritten(s)
end

-- charged returns the state s of KEYS[i] with cost added, under the request's
-- limit.
local function charged(s, i, cost)
  local algorithm, count, burst, period = request(i)
  local instant = s and math.max(now, s.time) or now
  if not s or s.algorithm ~= algorithm or s.period ~= period then
    if s then -- usage is kept, its age is not
      cost = cost + used(s, instant)
    end
    s = { key = KEYS[i], algorithm = algorithm, count = count, burst = burst, period = period, time = instant, a = 0, b = 0 }
    if algorithm == 4 then
      log_new(s)
    end
  end
  if algorithm == 4 then
    log_charge(s, cost, instant)
  else
    local a, b = rules[algorithm].at(s.count, period, s.time, s.a, s.b, instant)
    s.a, s.b, s.time = a + cost, b, instant
  end
  s.count, s.burst = count, burst
  return s
end

-- excess returns how much to refund so that exactly target of in_use is left.
local function excess(s, in_use, target)
  local rule = rules[s.algorithm]
  if not rule or not rule.excess then
    return in_use - target
  end
  local instant = math.max(now, s.time)
  local a, b = rule.at(s.count, s.period, s.time, s.a, s.b, instant)
  return rule.excess(s.period, a, b, instant, target)
end

-- refunded returns s with cost taken off, or false if nothing is left.
local function refunded(s, cost)
  local instant = math.max(now, s.time)
  if s.algorithm == 4 then
    return log_refund(s, cost, instant) and s
  end
  local rule = rules[s.algorithm]
  local a, b = rule.at(s.count, s.period, s.time, s.a, s.b, instant)
  s.a, s.b = rule.refund(a, b, cost)
  s.time = instant
  return used(s, instant) > 0 and s
end

local states, allowed, all_allowed = {}, {}, true
for i = 1, #KEYS do
  local s, failure = load(i)
  if failure then
    return failure
  end
  states[i] = s
  local _, _, _, _, cost, capacity, shadow = request(i)
  allowed[i] = op == 'r' or op == 'a' or (s and used(s, math.max(now, s.time)) or 0) + cost <= capacity
  all_allowed = all_allowed and (allowed[i] or shadow)
end

-- change returns what op makes of the state s of KEYS[i], false if that is unused,
-- and whether it differs.
local function change(s, i)
  local _, _, _, _, cost = request(i)
  if op == 't' and all_allowed and allowed[i] then
    return charged(s, i, cost), true
  elseif op == 'r' and s then
    return refunded(s, cost), true
  elseif op == 'a' then
    local in_use = s and used(s, math.max(now, s.time)) or 0
    if in_use < cost then
      return charged(s, i, cost - in_use), true
    elseif in_use > cost then
      return refunded(s, excess(s, in_use, cost)), true
    end
  end
  return s, false
end

local whole, in_place, emptied = {}, {}, {}
for i = 1, #KEYS do
  local before, changed = states[i], nil
  states[i], changed = change(before, i)
  if changed then
    local kind = not states[i] and emptied or updates_in_place(states[i]) and in_place or whole
    kind[#kind + 1] = states[i] or before
  end
end
-- What needs SET goes first: should that right be missing, nothing is written, and
-- what comes after can do with it.
for _, s in ipairs(whole) do
  save(s)
end
for _, s in ipairs(in_place) do
  save(s)
end
for _, s in ipairs(emptied) do -- who lacks the right to DEL has that to SET
  if type(redis.pcall('DEL', s.key)) ~= 'number' then
    set(s.key, struct.pack('>I3BI4I4I7I7I4', magic, 3, s.count, s.count, s.period, s.time, 0), now + 1, now)
  end
end

local reply = { struct.pack('>I7', now) }
for i = 1, #KEYS do
  local s, record = states[i], ''
  if s and s.algorithm == 4 then
    local _, _, _, _, cost, capacity = request(i)
    record = log_digest(s, math.max(0, capacity - cost), math.max(now, s.time))
  elseif s then
    record = string.sub(s.raw, 1, rules[s.algorithm].size)
  end
  reply[#reply + 1] = struct.pack('>BB', allowed[i] and 1 or 0, #record) .. record
end
return table.concat(reply)

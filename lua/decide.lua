-- Decides requests against the states of their keys at one instant, all or
-- nothing. The Go twin is Decide in pkg/limiter/decision.go. The files before
-- this one in the script (see lua.go) say how each algorithm counts.
--
-- KEYS     the store key of each request, no two the same
-- ARGV[1]  't' take, 'p' peek (writes nothing), 'r' refund
-- ARGV[2]  the requests, 20 bytes each, big-endian: algorithm 1, count 4,
--          burst 4, period 7 (µs), cost 4
-- ARGV[3]  now in µs, instead of the server's clock; for tests and simulation
-- Returns  a string: now 7, then for each request: allowed 1 (0 or 1), length 1,
--          and that many bytes of the record as it is now, none if unused. The
--          caller derives the rest from it. A log's record is a digest.
-- Errors   'FOREIGN <request> <what the key holds>': not a record of ours
--          'ALGORITHM': a record of an algorithm this script was made without;
--          call the complete one. After an error nothing has been written.
-- Cost     one TIME, one GETRANGE and one SET per request; for a sliding log
--          O(log n) GETRANGEs of 10 bytes, 2 SETRANGEs, and now and then a
--          rewrite of the ring.

local op, requests = ARGV[1], ARGV[2]
local now = tonumber(ARGV[3])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end

local states, allowed, all_allowed = {}, {}, true
for i = 1, #KEYS do
  local s, failure = load(i)
  if failure then
    return failure
  end
  states[i] = s
  if op ~= 'r' then
    local algorithm, count, burst, _, cost = struct.unpack('>BI4I4I7I4', requests, i * 20 - 19)
    local capacity = algorithm <= 2 and burst or count
    local used = s and rules[s.algorithm].used(s, max(now, s.time)) or 0
    allowed[i] = used + cost <= capacity
    all_allowed = all_allowed and allowed[i]
  else
    allowed[i] = true
  end
end

-- charged returns the state s of KEYS[i] with the request's cost added.
local function charged(s, i)
  local algorithm, count, burst, period, cost = struct.unpack('>BI4I4I7I4', requests, i * 20 - 19)
  local instant = s and max(now, s.time) or now
  if not s or s.algorithm ~= algorithm or s.period ~= period then
    if s then -- usage is kept, its age is not
      cost = cost + rules[s.algorithm].used(s, instant)
    end
    s = { key = KEYS[i], algorithm = algorithm, count = count, burst = burst, period = period, time = instant }
    rules[algorithm].new(s)
  end
  rules[algorithm].charge(s, cost, instant)
  s.count, s.burst = count, burst
  return s
end

local function save(s)
  local rule = rules[s.algorithm]
  rule.save(s, rule.unused_at(s), now)
end

if op == 't' and all_allowed then
  for i = 1, #KEYS do
    states[i] = charged(states[i], i)
  end
  -- Logs first: they need rights that the others do not.
  for i = 1, #KEYS do
    if states[i].algorithm == 4 then
      save(states[i])
    end
  end
  for i = 1, #KEYS do
    if states[i].algorithm ~= 4 then
      save(states[i])
    end
  end
elseif op == 'r' then
  for i = 1, #KEYS do
    local s = states[i]
    if s then
      local rule, instant = rules[s.algorithm], max(now, s.time)
      local _, _, _, _, cost = struct.unpack('>BI4I4I7I4', requests, i * 20 - 19)
      if rule.refund(s, cost, instant) then
        redis.call('DEL', s.key)
        states[i] = false
      else
        save(s)
      end
    end
  end
end

local reply = { struct.pack('>I7', now) }
for i = 1, #KEYS do
  local s, record = states[i], ''
  if s then
    local rule = rules[s.algorithm]
    record = s.raw
    if rule.reply then
      local algorithm, count, burst, _, cost = struct.unpack('>BI4I4I7I4', requests, i * 20 - 19)
      record = rule.reply(s, (algorithm <= 2 and burst or count) - cost, max(now, s.time))
    end
  end
  reply[#reply + 1] = struct.pack('>BB', allowed[i] and 1 or 0, #record) .. record
end
return table.concat(reply)

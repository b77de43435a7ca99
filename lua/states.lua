-- What decide.lua and decide_charging.lua have in common: requests as they come, the states
-- of their keys, and how those are changed and stored. Requests are packed in ARGV[1], from
-- its second byte on, as decide.lua says.

-- request returns kind, count, burst, period, cost and capacity of KEYS[i], and
-- whether it is a shadow. The capacity is that of the limit, less what the request leaves.
local function request(i)
  local kind, count, burst, period, cost = struct.unpack('>BI4I4I7I4', ARGV[1], i * 20 - 18)
  local shadow = kind >= 128
  if shadow then
    kind = kind - 128
  end
  local capacity = rules[kind].has_burst and burst or count
  if ARGV[3] then
    capacity = capacity - struct.unpack('>I4', ARGV[3], i * 4 - 3)
  end
  return kind, count, burst, period, cost, capacity, shadow
end

local function foreign(i, holds)
  return nil, { err = 'FOREIGN ' .. i .. ' ' .. holds }
end

-- read reads the state of KEYS[i]: a table, false if unused, or nil and an error
-- reply. The table has the fields of the record's header, the rule of its kind, and
-- how to handle it.
local function read(i)
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
  local overfull = version == OVERFULL_VERSION and rule and rule.has_burst
  if version ~= (rule and rule.magic or magic) % 256 and not overfull then
    return foreign(i, 'a limit record of version ' .. version .. ', which this limitctl does not know')
  end
  if rule and count >= 1 and count <= MAX_COUNT and period >= MIN_PERIOD and period <= (rule.max_period or MAX_PERIOD)
    and time <= MAX_INSTANT then
    local how = rule.load and rule or numbers -- see numbers.lua
    local s = {
      kind = kind, rule = rule, how = how, count = count, burst = burst, period = period, time = time, raw = raw, key = key,
      overfull = overfull,
    }
    if how.load(s, size) then
      return s
    elseif s.bare then
      local ttl = redis.pcall('PTTL', key)
      if ttl == -1 or type(ttl) == 'table' then -- who lacks the right to ask takes it for what it looks like
        return false
      end
    end
  end
  return foreign(i, 'a damaged limit record')
end

-- load is read, with an error reply also if the window that the caller has computed for the
-- request does not hold the instant: nothing may be decided in a wrong one. The error says
-- that instant, and now.
local function load(i)
  local s, failure = read(i)
  local kind, _, burst, period = request(i)
  local holds = rules[kind].holds
  if holds and not failure then
    local instant = s and math.max(now, s.time) or now
    if not holds(burst, period, instant) then
      return nil, { err = string.format('WINDOW %d %.0f %.0f', i, instant, now) }
    end
  end
  return s, failure
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

-- store writes states that have changed: those in whole need SET, those in in_place can
-- do without, and those in emptied are not in use any more. What needs SET goes first: should that
-- right be missing, nothing is written, and what comes after can do with it.
local function store(whole, in_place, emptied)
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
end

-- What decide.lua and adjust.lua have in common: requests as they come, the states of their keys, and how those are
-- changed and stored. Requests are packed in ARGV[1], from its second byte on, as decide.lua says.

-- request returns what is asked of KEYS[i]. The capacity is that of the limit, less what the request leaves.
local function request(i)
  local kind, count, burst, period, cost = struct.unpack('>BI4I4I7I4', ARGV[1], i * 20 - 18)
  local shadow = kind >= 128
  if shadow then
    kind = kind - 128
  end
  local rule = rules[kind]
  local capacity = rule.has_burst and burst or count
  if ARGV[3] then
    capacity = capacity - struct.unpack('>I4', ARGV[3], i * 4 - 3)
  end
  return {
    kind = kind, rule = rule, count = count, burst = burst, period = period, cost = cost, capacity = capacity,
    shadow = shadow,
  }
end

-- foreign returns the error about KEYS[i] that holds something else.
local function foreign(i, holds)
  return { err = 'FOREIGN ' .. i .. ' ' .. holds }
end

-- load reads the state of the request r, of KEYS[i], into r.state, a table, false if unused, and r.instant, the now of
-- that state: time never runs backwards. The table has the fields of the record's header, the rule of its kind, and how
-- to handle it. load returns an error reply if that fails, or if the window that the caller has computed does not hold
-- the instant: nothing may be decided in a wrong one. The error says that instant, and now.
local function load(r, i)
  local key, s = KEYS[i], false
  local raw = redis.pcall('GETRANGE', key, '0', '511') -- all records but large logs
  if type(raw) == 'table' then
    if string.find(raw.err, 'WRONGTYPE', 1, true) then
      local kind = redis.pcall('TYPE', key)
      return foreign(i, 'a ' .. (kind.ok or 'value of another type') .. ', which is not a limit record')
    end
    return raw
  end
  if raw ~= '' or redis.call('EXISTS', key) == 1 then
    local size = #raw
    if size == 512 then
      size = redis.call('STRLEN', key)
    end
    if size < 26 or string.sub(raw, 1, 2) ~= 'RL' then
      return foreign(i, string.format('%.0f', size) .. ' bytes that are not a limit record')
    end
    local version, kind, count, burst, period, time = struct.unpack('>BBI4I4I7I7', raw, 3)
    local rule = rules[kind]
    if not rule and kind >= 1 and kind <= 7 then
      return { err = 'COMPLETE' }
    end
    local overfull = version == 3 and rule and rule.has_burst
    if version ~= (rule and rule.magic or magic) % 256 and not overfull then
      return foreign(i, 'a limit record of version ' .. version .. ', which this limitctl does not know')
    end
    if not rule or count < 1 or count > 1e9 or period < 1000 or period > (rule.max_period or 366 * 86400e6)
      or time >= 2 ^ 52 then
      return foreign(i, 'a damaged limit record')
    end
    local how = rule.load and rule or numbers -- see numbers.lua
    s = {
      kind = kind, rule = rule, how = how, count = count, burst = burst, period = period, time = time, raw = raw,
      key = key, overfull = overfull,
    }
    if not how.load(s, size) then
      return foreign(i, 'a damaged limit record')
    end
  end
  r.state, r.instant = s, s and s.time > now and s.time or now
  if r.rule.holds and not r.rule.holds(r.burst, r.period, r.instant) then
    return { err = string.format('WINDOW %d %.0f %.0f', i, r.instant, now) }
  end
end

-- used returns the units that are in use.
local function used(r)
  if not r.used then
    r.used = r.state and r.state.how.used(r.state, r.instant) or 0
  end
  return r.used
end

-- charged returns the state of r, of KEYS[i], with units added, under its limit.
local function charged(r, i, units)
  local s, rule = r.state, r.rule
  if not s or s.kind ~= r.kind or s.period ~= r.period
    or rule.measure and rule.measure(r.count, r.burst, r.period) ~= s.step then
    units = units + used(r) -- usage is kept, its age is not
    s = { key = KEYS[i], kind = r.kind, rule = rule, how = rule.load and rule or numbers, a = 0, b = 0 }
    s.count, s.burst, s.period, s.time = r.count, r.burst, r.period, r.instant
    if rule.fresh then
      rule.fresh(s)
    end
  end
  s.how.charge(s, units, r.instant)
  s.count, s.burst = r.count, r.burst
  return s
end

-- remove removes a key. Who lacks the right to DEL has that to SET.
local function remove(key, value)
  if type(redis.pcall('DEL', key)) ~= 'number' then
    redis.call('SET', key, value, expires, milliseconds(now + 1 - expires_from))
  end
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
  for _, s in ipairs(emptied) do
    remove(s.key, struct.pack('>I3BI4I4I7I7I4', magic, 3, s.count, s.count, s.period, s.time, 0))
  end
end

-- Adds denials to the table of the current minute and to that of the ten minutes it is in, each a hash. A field
-- is a subject and a name with a NUL between them. Its value is packed as six numbers of 6 bytes: how often the key
-- was denied, when last and since when in ms since the epoch, how often of these by an override, how often after the
-- first time that a process saw, and how many takes were let through meanwhile; then the limit as text, a NUL, and
-- the ID of the override. Of the field '' the first number is the sum of all denials, and the second 1 if some are
-- counted nowhere, else 0.
--
-- What overrides let through is added to two more hashes. A field is the ID of an override, and its value how many
-- takes it let through, in decimal digits. The field '' counts those of all overrides, also of those that had no room.
--
-- KEYS[1]  the hash of the denials of the minute
-- KEYS[2]  that of the ten minutes
-- KEYS[3]  the hash of what overrides let through in the minute
-- KEYS[4]  that of the ten minutes
-- ARGV[1]  the number of the minute since the epoch
-- ARGV[2]  the instant that counts, in ms, or '' for the server's clock
-- ARGV[3]  how many pairs of a field and a value follow for the hashes of denials: none, or first '' and its sum, then
--          one for each row, with how many ms ago instead of when. The pairs after them are for the other
--          hashes: none, or first '' and its count, then one for each override
-- Returns  the instant in ms; below 0 if that is in another minute, and nothing was done
-- Cost     one TIME, and for each hash with pairs one HLEN, HMGET and HSET; two PEXPIREAT for a new one; when there
--          are too many rows in one, an HGETALL and an HDEL

local minute = tonumber(ARGV[1])
local time = redis.call('TIME')
local clock = time[1] * 1000 + math.floor(time[2] / 1000)
local now = tonumber(ARGV[2]) or clock

-- Servers of a Cluster have clocks of their own, so two seconds around the minute pass.
if now + 2000 < minute * 60000 or now >= (minute + 1) * 60000 + 2000 then
  return -now
end

-- drop removes the rows of key beyond kept, those that were denied least, and of equals any.
local function drop(key, kept)
  local all, rows, with, counts = redis.call('HGETALL', key), 0, {}, {}
  for i = 1, #all, 2 do
    if all[i] ~= '' and #all[i + 1] > 36 then
      local count = struct.unpack('>I6', all[i + 1])
      all[i + 1] = count
      if not with[count] then
        with[count] = 0
        counts[#counts + 1] = count
      end
      with[count] = with[count] + 1
      rows = rows + 1
    end
  end
  table.sort(counts)
  local below, surplus = 1, rows - kept -- all of less than counts[below] go
  while with[counts[below]] <= surplus do
    surplus = surplus - with[counts[below]]
    below = below + 1
  end
  local gone = {}
  for i = 1, #all, 2 do
    local field, count = all[i], all[i + 1]
    if type(count) == 'number' and (count < counts[below] or count == counts[below] and surplus > 0) then
      if count == counts[below] then
        surplus = surplus - 1
      end
      gone[#gone + 1] = field
    end
  end
  redis.call('HDEL', key, unpack(gone))
end

-- since returns the begin of the run of denials that two counts of a key make: see MergeDenied of pkg/limiter/admin.
local function since_of(since_before, last_before, since, last)
  if since > last_before + 300000 then
    return since
  elseif since_before > last + 300000 then
    return since_before
  end
  return math.min(since_before, since)
end

-- sum returns the value of a field after it was added to. before is its value, or false.
local function sum(field, added, before)
  local count, last, since, blocked, compared, allowed = struct.unpack('>I6I6I6I6I6I6', added)
  local limit, override = string.match(string.sub(added, 37), '^(%Z*)%z(%Z*)$')
  if field ~= '' then
    last, since = now - last, now - since
  end
  if before then
    local count_before, last_before, since_before, blocked_before, compared_before, allowed_before = struct.unpack('>I6I6I6I6I6I6', before)
    local limit_before, override_before = string.match(string.sub(before, 37), '^(%Z*)%z(%Z*)$')
    count, blocked = count + count_before, blocked + blocked_before
    compared, allowed = compared + compared_before, allowed + allowed_before
    since = since_of(since_before, last_before, since, last)
    last = math.max(last, last_before)
    limit = limit ~= '' and limit or limit_before or ''
    override = override ~= '' and override or override_before or ''
  end
  return struct.pack('>I6I6I6I6I6I6', count, last, since, blocked, compared, allowed) .. limit .. '\0' .. override
end

local pairs_of_denials, denied, through = tonumber(ARGV[3]), { fields = {}, values = {} }, { fields = {}, values = {} }
for i = 4, #ARGV, 2 do
  local to = i < 4 + 2 * pairs_of_denials and denied or through
  to.fields[#to.fields + 1], to.values[#to.values + 1] = ARGV[i], ARGV[i + 1]
end

local minute_expires = (minute + 1) * 60000 + 3600000
local coarse_expires = (math.floor(minute / 10) + 1) * 600000 + 86400000
local tables = {}
if #denied.fields > 0 then
  tables[1] = { n = 1, added = denied, kept = 1000, held = 1500, expires = minute_expires }
  tables[2] = { n = 2, added = denied, kept = 200, held = 300, expires = coarse_expires }
end
if #through.fields > 0 then
  tables[#tables + 1] = { n = 3, added = through, expires = minute_expires }
  tables[#tables + 1] = { n = 4, added = through, expires = coarse_expires }
end
for _, t in ipairs(tables) do
  t.key = KEYS[t.n]
  t.rows, t.changed = redis.call('HLEN', t.key), {}
  local before, room = redis.call('HMGET', t.key, unpack(t.added.fields)), 1001 - t.rows
  for i, field in ipairs(t.added.fields) do
    local value, held = t.added.values[i], before[i]
    if t.rows > 0 and not before[1] or held and (t.held and #held <= 36 or not t.held and not string.find(held, '^%d+$')) then
      return { err = 'FOREIGN ' .. t.n .. ' a hash that is not a table of denials' }
    end
    if t.held then
      value = sum(field, value, held)
    elseif held or room > 0 then
      room = room - (held and 0 or 1)
      value = string.format('%.0f', value + (held or 0))
    else
      value = nil
    end
    if value then
      t.changed[#t.changed + 1] = field
      t.changed[#t.changed + 1] = value
    end
  end
end

-- What can fail for want of a right comes before the rows are written, or those that were
-- refused would be added again.
for _, t in ipairs(tables) do
  t.expires = t.expires - now + clock
  if t.held and t.rows > t.held + 1 then
    drop(t.key, t.kept)
  elseif t.rows == 0 then
    redis.call('PEXPIREAT', t.key, t.expires)
  end
end
for _, t in ipairs(tables) do
  redis.call('HSET', t.key, unpack(t.changed))
  if t.rows == 0 then
    redis.call('PEXPIREAT', t.key, t.expires)
  end
end
return now

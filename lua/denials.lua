-- Adds denials to the table of a minute and to that of the ten minutes it is in, each a hash. A field is a subject and a
-- name with a NUL between them. Its value is packed as six numbers of 6 bytes: how often the key was denied, when last and
-- since when in ms since the epoch, how often of these by an override, how often after the first time that a process saw,
-- and how many takes were let through meanwhile; then the limit as text, a NUL, and the ID of the override. Of the field ''
-- the first number is the sum of all denials, and the second 1 if some are counted nowhere, else 0.
--
-- KEYS[1]  the hash of the denials of the minute
-- KEYS[2]  that of the ten minutes
-- ARGV[1]  when the hash of the minute expires, in ms since the epoch
-- ARGV[2]  when that of the ten minutes does
-- ARGV[3…] pairs of a field and a value follow: first '' and its sum, then one for each row
-- Returns  1
-- Cost     for each hash one HLEN, HMGET, PEXPIREAT and HSET, and one PEXPIREAT more for a new one; when there are too
--          many rows, an HGETALL and an HDEL

-- drop removes the rows of key beyond kept, first those of shadow limits and then those that were denied least. A row of
-- a block stays, and takes no place.
local function drop(key, kept)
  local all, rows, gone = redis.call('HGETALL', key), {}, {}
  for i = 1, #all, 2 do
    if all[i] ~= '' and #all[i + 1] > 36 and not string.find(all[i], '\0(block)', 1, true) then
      local denied = string.find(all[i], '\0(shadow)', 1, true) and 0 or 2 ^ 48
      rows[#rows + 1] = { field = all[i], count = denied + struct.unpack('>I6', all[i + 1]) }
    end
  end
  table.sort(rows, function(a, b) return a.count > b.count end)
  for i = kept + 1, #rows do
    gone[#gone + 1] = rows[i].field
  end
  if #gone > 0 then
    redis.call('HDEL', key, unpack(gone))
  end
end

-- since_of returns the begin of the run of denials that two counts of a key make: see MergeDenied of pkg/limiter/admin.
local function since_of(since_before, last_before, since, last)
  if since > last_before + 300000 then
    return since
  elseif since_before > last + 300000 then
    return since_before
  end
  return math.min(since_before, since)
end

-- sum returns the value of a field after it was added to. before is its value, or false.
local function sum(added, before)
  if not before then
    return added
  end
  local count, last, since, blocked, compared, allowed = struct.unpack('>I6I6I6I6I6I6', added)
  local count_before, last_before, since_before, blocked_before, compared_before, allowed_before = struct.unpack('>I6I6I6I6I6I6', before)
  local limit, override = string.match(string.sub(added, 37), '^(%Z*)%z(%Z*)$')
  local limit_before, override_before = string.match(string.sub(before, 37), '^(%Z*)%z(%Z*)$')
  limit = limit ~= '' and limit or limit_before or ''
  override = override ~= '' and override or override_before or ''
  return struct.pack('>I6I6I6I6I6I6', count + count_before, math.max(last, last_before), since_of(since_before, last_before, since, last),
    blocked + blocked_before, compared + compared_before, allowed + allowed_before) .. limit .. '\0' .. override
end

local tables = {}
for n = 1, 2 do
  local t = { key = KEYS[n], kept = n == 1 and 1000 or 200, rows = redis.call('HLEN', KEYS[n]), expires = ARGV[n], changed = {} }
  local fields = {}
  for i = 3, #ARGV, 2 do
    fields[#fields + 1] = ARGV[i]
  end
  local before = redis.call('HMGET', t.key, unpack(fields))
  for i, held in ipairs(before) do
    if t.rows > 0 and not before[1] or held and #held <= 36 then
      return { err = 'FOREIGN ' .. n .. ' a hash that is not a table of denials' }
    end
    t.changed[2 * i - 1] = fields[i]
    t.changed[2 * i] = sum(ARGV[2 * i + 2], held)
  end
  tables[n] = t
end
for _, t in ipairs(tables) do
  redis.call('PEXPIREAT', t.key, t.expires) -- first, so that nothing is written without the right to it
  if t.rows > t.kept * 1.5 + 1 then
    drop(t.key, t.kept)
  end
  redis.call('HSET', t.key, unpack(t.changed))
  if t.rows == 0 then
    redis.call('PEXPIREAT', t.key, t.expires)
  end
end
return 1

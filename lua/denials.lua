-- Adds denials to a part of the table: to the current minute or hour. A part is two hashes, with
-- a field for each subject and name, which have a NUL between them. In the first, the value
-- is how often that key was denied 6, and when last in ms since the epoch 6. Its field '' has
-- the sum of all denials instead, and 1 if some are counted nowhere, else 0. The second has
-- what older versions do not know: since when 6, how many were blocked 6, how many are
-- compared 6 with how many let through 6, then the limit, a NUL, and the id of the override.
--
-- KEYS[1]  the first hash of the part; KEYS[2] the second
-- ARGV[1]  the number of the part since the epoch
-- ARGV[2]  the instant that counts, in ms, or '' for the server's clock
-- ARGV[3]  how many denials there are of all keys 6, whether some are counted nowhere 6, how
--          long a part lasts 6 and is kept after that 6, in ms; then for each row: how many 6,
--          how many ms ago the last 6 and the first 6 were, how many are blocked 6, compared
--          6, and let through 6. A row of no denials is left out if the part has not the key
-- ARGV[4]  '', the field of the sum; then the field of each row; then the limit and override
--          of each row
-- Returns  the instant in ms; below 0 if that is in another part, and nothing was done
-- Cost     one TIME, two HLEN, HMGET and HSET; three PEXPIREAT in a new part; when there are
--          more than DENIALS_HELD rows, one HGETALL and two HDEL, which leave DENIALS_KEPT

local number, key, details, packed = tonumber(ARGV[1]), KEYS[1], KEYS[2], ARGV[3]
local total, lost, step, kept = struct.unpack('>I6I6I6I6', packed)
local time = redis.call('TIME')
local clock = time[1] * 1000 + math.floor(time[2] / 1000)
local now = tonumber(ARGV[2]) or clock

-- Servers of a Cluster have clocks of their own, so two seconds around the part pass.
if now + 2000 < number * step or now >= (number + 1) * step + 2000 then
  return -now
end

-- drop removes the rows that were denied least, and of equals any.
local function drop()
  local all, rows, with, counts = redis.call('HGETALL', key), 0, {}, {}
  for i = 1, #all, 2 do
    if all[i] ~= '' and #all[i + 1] == 12 then
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
  local below, surplus = 1, rows - DENIALS_KEPT -- all of less than counts[below] go
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
  redis.call('HDEL', details, unpack(gone))
end

local rows = (#ARGV - 4) / 2
local fields, held = redis.call('HLEN', key), redis.call('HMGET', key, unpack(ARGV, 4, 4 + rows))
local known, more = redis.call('HLEN', details), rows > 0 and redis.call('HMGET', details, unpack(ARGV, 5, 4 + rows)) or {}
if fields > 0 and not held[1] then
  return { err = 'FOREIGN 1 a hash that is not a table of denials' }
end
for i = 1, rows + 1 do
  if held[i] and #held[i] ~= 12 or more[i] and #more[i] < 24 then
    return { err = 'FOREIGN 1 a hash that is not a table of denials' }
  end
end
if held[1] then
  local before, lost_before = struct.unpack('>I6I6', held[1])
  total, lost = total + before, math.max(lost, lost_before)
end
local changed, described = { '', struct.pack('>I6I6', total, lost) }, {}
for i = 1, rows do
  local field, value, detail = ARGV[4 + i], held[i + 1], more[i]
  local count, last, first, blocked, compared, passed = struct.unpack('>I6I6I6I6I6I6', packed, i * 36 - 11)
  local is_denied, text = count > 0, ARGV[4 + rows + i]
  last, first = now - last, now - first
  if value then
    local before, last_before = struct.unpack('>I6I6', value)
    local since, text_before = last_before, ''
    if detail then
      local blocked_before, compared_before, passed_before
      since, blocked_before, compared_before, passed_before = struct.unpack('>I6I6I6I6', detail)
      text_before = detail:sub(25)
      blocked, compared, passed = blocked + blocked_before, compared + compared_before, passed + passed_before
    end
    if not is_denied then
      first, last = since, last_before
    elseif first <= last_before + DENIALS_QUIET then -- the run goes on, or an older one comes late
      first = since > last + DENIALS_QUIET and since or math.min(since, first)
    end
    if not is_denied or last < last_before or #text < 2 then
      text = text_before
    end
    count, last = count + before, math.max(last, last_before)
  end
  if is_denied then
    changed[#changed + 1] = field
    changed[#changed + 1] = struct.pack('>I6I6', count, last)
  end
  -- Older versions drop rows of the first hash only, so the second has a bound of its own.
  if detail or is_denied and known <= 2 * DENIALS_HELD then
    described[#described + 1] = field
    described[#described + 1] = struct.pack('>I6I6I6I6', first, blocked, compared, passed) .. text
  end
end

-- What can fail for want of a right comes before the rows are written, or those that were
-- refused would be added again.
local expires = (number + 1) * step + kept - now + clock
if fields > DENIALS_HELD + 1 then
  drop()
elseif fields == 0 then
  redis.call('PEXPIREAT', key, expires)
end
redis.call('HSET', key, unpack(changed))
if fields == 0 then
  redis.call('PEXPIREAT', key, expires)
end
if #described > 0 then
  redis.call('HSET', details, unpack(described))
  if known == 0 then
    redis.call('PEXPIREAT', details, expires)
  end
end
return now

-- Adds denials to the table of the current minute, which is a hash of its own. A field
-- is a subject and a name with a NUL between them. Its value is how often that key was
-- denied, and when last in ms since the epoch. The field '' has the sum of all denials
-- instead, and 1 if some are counted nowhere, else 0.
--
-- KEYS[1]  the hash of the minute
-- ARGV[1]  the number of the minute since the epoch
-- ARGV[2]  the instant that counts, in ms, or '' for the server's clock
-- ARGV[3]  how many denials there are of all keys 6, whether some are counted nowhere 6;
--          then for each row: how many 6, how many ms ago the last was 6
-- ARGV[4]  '', the field of the sum; then the field of each row
-- Returns  the instant in ms; below 0 if that is in another minute, and nothing was done
-- Cost     one TIME, HLEN, HMGET and HSET; two PEXPIREAT in a new minute; when there are
--          more than DENIALS_HELD rows, one HGETALL and one HDEL, which leave DENIALS_KEPT

local minute, key, packed = tonumber(ARGV[1]), KEYS[1], ARGV[3]
local time = redis.call('TIME')
local clock = time[1] * 1000 + math.floor(time[2] / 1000)
local now = tonumber(ARGV[2]) or clock

-- Servers of a Cluster have clocks of their own, so two seconds around the minute pass.
if now + 2000 < minute * 60000 or now >= (minute + 1) * 60000 + 2000 then
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
end

local fields, held = redis.call('HLEN', key), redis.call('HMGET', key, unpack(ARGV, 4))
if fields > 0 and not held[1] then
  return { err = 'FOREIGN 1 a hash that is not a table of denials' }
end
local changed = {}
for i = 4, #ARGV do
  local count, last = struct.unpack('>I6I6', packed, (i - 4) * 12 + 1)
  if i > 4 then
    last = now - last
  end
  local value = held[i - 3]
  if value then
    if #value ~= 12 then
      return { err = 'FOREIGN 1 a hash that is not a table of denials' }
    end
    local before, last_before = struct.unpack('>I6I6', value)
    count, last = count + before, math.max(last, last_before)
  end
  changed[#changed + 1] = ARGV[i]
  changed[#changed + 1] = struct.pack('>I6I6', count, last)
end

-- What can fail for want of a right comes before the rows are written, or those that were
-- refused would be added again.
local expires = (minute + 61) * 60000 - now + clock
if fields > DENIALS_HELD + 1 then
  drop()
elseif fields == 0 then
  redis.call('PEXPIREAT', key, expires)
end
redis.call('HSET', key, unpack(changed))
if fields == 0 then
  redis.call('PEXPIREAT', key, expires)
end
return now

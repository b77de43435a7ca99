-- Deletes keys that other limiters wrote, or one field of a hash. The check and the deletion
-- are one step, so that a key which became something else since it was scanned is safe, and so
-- is a backup of one used since.
--
-- KEYS          the keys
-- ARGV[3i - 2]  the type that KEYS[i] had
-- ARGV[3i - 1]  the field to delete, or '' for the whole key
-- ARGV[3i]      the value that the caller has kept, as in kept.lua: of DUMP, or of the field
-- Returns       an array: a string of one byte a key, '1' deleted, '0' not there, 'o' left
--               because it has another type; then three elements for each key that was deleted and
--               held another value than the caller has kept (its index, the value, when it
--               would have expired in ms since the epoch or -1)
-- Cost          a TYPE, a DUMP or HGET and an UNLINK or HDEL a key

local done, changed = {}, {}
for i = 1, #KEYS do
  local key, kind, field, kept = KEYS[i], ARGV[3 * i - 2], ARGV[3 * i - 1], ARGV[3 * i]
  local is = redis.call('TYPE', key).ok
  local value
  if is == kind and field ~= '' then
    value = redis.call('HGET', key, field)
  elseif is == kind and kept ~= '' then
    value = redis.call('DUMP', key)
  end
  if is == 'none' or field ~= '' and value == false then
    done[i] = '0'
  elseif is ~= kind then
    done[i] = 'o'
  else
    if kept ~= '' and not stands_for(kept, value) then
      local n = #changed
      local left = redis.call('PTTL', key)
      local time = redis.call('TIME')
      changed[n + 1], changed[n + 2] = i, value
      changed[n + 3] = left < 0 and -1 or time[1] * 1000 + math.floor(time[2] / 1000) + left
    end
    if field ~= '' then
      redis.call('HDEL', key, field)
    else
      redis.call('UNLINK', key)
    end
    done[i] = '1'
  end
end
return { table.concat(done), unpack(changed) }

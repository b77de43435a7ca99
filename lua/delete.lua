-- Deletes keys that hold limit records, and leaves all others as they are. The
-- check and the deletion are one step, so that a key which became somebody
-- else's since it was scanned is safe, and so is a backup of one used since.
--
-- KEYS     the keys to delete; a damaged record is one of ours
-- ARGV     for each key the value that the caller has kept, as in kept.lua
-- Returns  an array: the number deleted, then four elements for each key that was
--          left (its index in KEYS, what it holds, '', 0) or that was deleted and
--          held another value than the caller has kept (its index, '', the value,
--          when it would have expired in ms since the epoch or -1)
-- Cost     one GET or GETRANGE and one UNLINK a key

-- is_kept reports whether a key still holds the value that kept stands for.
local function is_kept(key, kept)
  if kept == '' then
    return false
  end
  local value = redis.pcall('GET', key)
  return type(value) == 'string' and stands_for(kept, value)
end

for i = 1, #KEYS do
  local key, kept = KEYS[i], ARGV[i]
  if is_kept(key, kept) then
    reply[1] = reply[1] + redis.call('UNLINK', key)
  else
    local what = holds(key)
    if type(what) == 'table' then
      return what
    elseif what == 'record' then
      if kept ~= '' then
        tell(i, '', redis.call('GET', key), expires_at(key))
      end
      reply[1] = reply[1] + redis.call('UNLINK', key)
    elseif what then
      tell(i, what, '', 0)
    end
  end
end
return reply

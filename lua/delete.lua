-- Deletes keys that hold limit records, and leaves all others as they are. The
-- check and the deletion are one step, so that a key which became somebody
-- else's since it was scanned is safe, and so is a backup of one used since.
--
-- KEYS     the keys to delete; a damaged record is one of ours
-- ARGV     for each key the SHA-1 of the value that the caller has kept, in
--          hexadecimal, or '' if it has not
-- Returns  an array: the number deleted, then four elements for each key that was
--          left (its index in KEYS, what it holds, '', 0) or that was deleted and
--          held another value than the caller has kept (its index, '', the value,
--          when it would have expired in ms since the epoch or -1)
-- Cost     one GETRANGE and one UNLINK a key, and a GET for a kept value

local reply = { 0 }
for i = 1, #KEYS do
  local key = KEYS[i]
  local what = holds(key)
  if type(what) == 'table' then
    return what
  elseif what == 'record' then
    if ARGV[i] ~= '' then
      local value = redis.call('GET', key)
      if redis.sha1hex(value) ~= ARGV[i] then
        local n = #reply
        reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4] = i, '', value, expires_at(key)
      end
    end
    reply[1] = reply[1] + redis.call('UNLINK', key)
  elseif what then
    local n = #reply
    reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4] = i, what, '', 0
  end
end
return reply

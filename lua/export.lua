-- Reads whole records that are too large for a scan, and when they expire, each at
-- one instant.
--
-- KEYS     the keys to read
-- Returns  an array of two elements for each key looked at: its value, '' if that is
--          no record of ours, and when it expires in ms since the epoch or -1. Once
--          there are 4 MB it stops, and the caller asks again for the rest.
-- Cost     one GETRANGE, GET and PEXPIRETIME a key

local reply, bytes = {}, 0
for i = 1, #KEYS do
  local key, value, expires = KEYS[i], '', -1
  local what = holds(key)
  if type(what) == 'table' then
    return what
  elseif what == 'record' then
    value, expires = redis.call('GET', key), expires_at(key)
  end
  local n = #reply
  reply[n + 1], reply[n + 2] = value, expires
  bytes = bytes + #value
  if bytes > 4194304 then
    break
  end
end
return reply

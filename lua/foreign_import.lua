-- Brings back keys that other limiters wrote, or one field of a hash, where that overwrites
-- nothing it should not.
--
-- KEYS          the keys
-- ARGV[1]       '1' to overwrite what is there, '0' to leave it
-- ARGV[4i - 2]  the type of KEYS[i]
-- ARGV[4i - 1]  the field, or '' for the whole key
-- ARGV[4i]      what DUMP returned, or the text of the field
-- ARGV[4i + 1]  when it expires in ms since the epoch, or '-1' for never
-- Returns       a string of one byte a key: 'i' imported, 'a' already there, 'l' expired by
--               now, 'u' in use and left, 'f' of another type and left
-- Cost          a TYPE, a DUMP or HGET and a RESTORE or HSET a key

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local outcomes = {}
for i = 1, #KEYS do
  local key, kind, field = KEYS[i], ARGV[4 * i - 2], ARGV[4 * i - 1]
  local value, expires = ARGV[4 * i], tonumber(ARGV[4 * i + 1])
  local is = redis.call('TYPE', key).ok
  local holds = false
  if is == kind and field ~= '' then
    holds = redis.call('HGET', key, field)
  elseif is == kind then
    holds = redis.call('DUMP', key)
  end
  if expires >= 0 and expires <= now then
    outcomes[i] = 'l'
  elseif is ~= 'none' and is ~= kind then
    outcomes[i] = 'f'
  elseif holds == value then
    outcomes[i] = 'a'
  elseif holds and ARGV[1] ~= '1' then
    outcomes[i] = 'u'
  elseif field ~= '' then
    redis.call('HSET', key, field, value)
    if is == 'none' and expires >= 0 then
      redis.call('PEXPIREAT', key, ARGV[4 * i + 1])
    end
    outcomes[i] = 'i'
  else
    local left = expires < 0 and '0' or string.format('%.0f', expires - now)
    redis.call('RESTORE', key, left, value, 'REPLACE')
    outcomes[i] = 'i'
  end
end
return table.concat(outcomes)

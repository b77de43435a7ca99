-- Writes exported records back, where that overwrites nothing it should not.
--
-- KEYS         the keys to write
-- ARGV[1]      '1' to overwrite records that are there, '0' to leave them
-- ARGV[2i]     the value of KEYS[i]
-- ARGV[2i + 1] when it expires in ms since the epoch, or '-1' for never
-- Returns      a string of one byte a key: 'i' imported, 'a' already
--              there, 'l' expired by now, 'u' in use and left, 'f' foreign and left
-- Cost         one GETRANGE, and a GET, a SET or both a key

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local absolute = (redis.REDIS_VERSION_NUM or 0) >= 0x00060200 -- which brought PXAT
local outcomes = {}
for i = 1, #KEYS do
  local key, value, expires = KEYS[i], ARGV[2 * i], tonumber(ARGV[2 * i + 1])
  local what = holds(key)
  if type(what) == 'table' then
    return what
  elseif expires >= 0 and expires <= now then
    outcomes[i] = 'l'
  elseif what and what ~= 'record' then
    outcomes[i] = 'f'
  elseif what and redis.call('GET', key) == value then
    outcomes[i] = 'a'
  elseif what and ARGV[1] ~= '1' then
    outcomes[i] = 'u'
  else
    if expires < 0 then
      redis.call('SET', key, value)
    elseif absolute then
      redis.call('SET', key, value, 'PXAT', ARGV[2 * i + 1])
    else
      redis.call('SET', key, value, 'PX', string.format('%.0f', expires - now))
    end
    outcomes[i] = 'i'
  end
end
return table.concat(outcomes)

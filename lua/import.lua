-- Writes exported records back, where that overwrites nothing it should not.
--
-- KEYS         the keys to write
-- ARGV[1]      '1' to overwrite records that are there, '0' to leave them
-- ARGV[2i]     the value of KEYS[i]
-- ARGV[2i + 1] when it expires in ms since the epoch
-- Returns      a string of one byte a key: 'i' imported, 'a' already
--              there, 'l' expired by now, 'u' in use and left, 'f' foreign and left
-- Cost         one GETRANGE, and a GET, a SET or both a key

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local absolute = (redis.REDIS_VERSION_NUM or 0) >= 0x00060200 -- which brought PXAT
local outcomes = {}

-- is_bare reports whether a key holds a ring's record that counts entries and has none, and never
-- expires: nothing of it is in use, as ring.lua says.
local function is_bare(key)
  local value = redis.call('GET', key)
  local format = ({ [4] = '>I4I4I3', [6] = '>I2I2I4' })[string.byte(value, 4)]
  if not format or #value ~= 26 + struct.size(format) then
    return false
  end
  local _, length = struct.unpack(format, value, 27)
  return length > 0 and redis.pcall('PTTL', key) == -1
end

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
  elseif what and ARGV[1] ~= '1' and not is_bare(key) then
    outcomes[i] = 'u'
  else
    if absolute then
      redis.call('SET', key, value, 'PXAT', ARGV[2 * i + 1])
    else
      redis.call('SET', key, value, 'PX', string.format('%.0f', expires - now))
    end
    outcomes[i] = 'i'
  end
end
return table.concat(outcomes)

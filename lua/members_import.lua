-- Brings back keys that other limiters wrote, or single fields of hashes, where that overwrites
-- nothing it should not. Keys of one limit are a family, and come back together or not at all.
--
-- KEYS          the keys, those of a family next to each other
-- ARGV[1]       '1' to overwrite what is there, '0' to leave it
-- ARGV[5i - 3]  the number of the family of KEYS[i]
-- ARGV[5i - 2]  its type
-- ARGV[5i - 1]  the field, or '' for the whole key
-- ARGV[5i]      't' and the text of the string or the field, or 'd' and what DUMP returned
-- ARGV[5i + 1]  when it expires in ms since the epoch, or '-1' for never
-- Returns       a string of one byte a key: 'i' imported, 'a' already there, 'l' expired by
--               now, 'u' in use and left, 'f' of another type and left, 'v' left since the
--               server cannot read the dump, '-' left with another one of its family
-- Cost          a GET and a SET a key; a TYPE, a DUMP or HGET and a RESTORE or HSET for what is
--               no string

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local absolute = (redis.REDIS_VERSION_NUM or 0) >= 0x00060200 -- which brought PXAT
local outcomes, before = {}, {}

-- look finds out what is to become of KEYS[i]; 'w' is to be written.
local function look(i)
  local key, kind, field, value = KEYS[i], ARGV[5 * i - 2], ARGV[5 * i - 1], ARGV[5 * i]
  local expires = tonumber(ARGV[5 * i + 1])
  local is, has = held(key, kind, field, value)
  before[i] = has and { is = is, value = has } or { is = is }
  if expires >= 0 and expires <= now then
    return 'l'
  elseif is ~= 'none' and is ~= kind then
    return 'f'
  elseif has == string.sub(value, 2) then
    return 'a'
  elseif has and ARGV[1] ~= '1' then
    return 'u'
  end
  return 'w'
end

-- put writes a value and its expiry, and returns an error reply if that fails.
local function put(key, is, field, value, expires)
  local text = string.sub(value, 2)
  if field ~= '' then
    local done = redis.pcall('HSET', key, field, text)
    if is == 'none' and tonumber(expires) >= 0 and type(done) == 'number' then
      done = redis.pcall('PEXPIREAT', key, expires)
    end
    return done
  elseif string.byte(value) ~= 116 then
    return redis.pcall('RESTORE', key, tonumber(expires) < 0 and '0' or expires, text, 'REPLACE', 'ABSTTL')
  elseif tonumber(expires) < 0 then
    return redis.pcall('SET', key, text)
  elseif absolute then
    return redis.pcall('SET', key, text, 'PXAT', expires)
  end
  return redis.pcall('SET', key, text, 'PX', string.format('%.0f', tonumber(expires) - now))
end

-- take_back undoes the writing of KEYS[i].
local function take_back(i)
  local key, field, was = KEYS[i], ARGV[5 * i - 1], before[i]
  if field ~= '' and was.value then
    redis.call('HSET', key, field, was.value)
  elseif field ~= '' then
    redis.call('HDEL', key, field)
  elseif was.value then
    put(key, was.is, '', string.sub(ARGV[5 * i], 1, 1) .. was.value, was.expires)
  else
    redis.call('UNLINK', key)
  end
end

-- write writes what is to be written of a family, and takes it back if a part of it fails. It
-- returns that error reply.
local function write(first, last)
  for i = first, last do
    if outcomes[i] == 'w' then
      local key, was = KEYS[i], before[i]
      was.expires = first < last and was.value and string.format('%.0f', expires_at(key)) or '-1'
      local done = put(key, was.is, ARGV[5 * i - 1], ARGV[5 * i], ARGV[5 * i + 1])
      if type(done) == 'table' and done.err then
        for earlier = first, i - 1 do
          if outcomes[earlier] == 'i' then
            take_back(earlier)
            outcomes[earlier] = 'w'
          end
        end
        outcomes[i] = 'v'
        if string.find(done.err, 'can\'t run this command', 1, true) or string.find(done.err, '^NOPERM') then
          local command = ARGV[5 * i - 1] ~= '' and 'hset' or string.byte(ARGV[5 * i]) == 116 and 'set' or 'restore'
          return { err = 'NOPERM this user has no permissions to run the \'' .. command .. '\' command' }
        end
        return done
      end
      outcomes[i] = 'i'
    end
  end
end

local first = 1
while first <= #KEYS do
  local last, left = first, false
  while true do
    outcomes[last] = look(last)
    left = left or outcomes[last] == 'f' or outcomes[last] == 'u'
    if last == #KEYS or ARGV[5 * last + 2] ~= ARGV[5 * first - 3] then
      break
    end
    last = last + 1
  end
  local failure = not left and write(first, last)
  if failure and not string.find(failure.err, 'DUMP payload', 1, true) and not string.find(failure.err, 'Bad data format', 1, true) then
    return failure
  end
  for i = first, last do
    if outcomes[i] == 'w' then
      outcomes[i] = '-'
    end
  end
  first = last + 1
end
return table.concat(outcomes)

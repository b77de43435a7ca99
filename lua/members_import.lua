-- Brings back keys that other limiters wrote, where that overwrites nothing it should not. Keys
-- of one limit are a family, and come back together or not at all.
--
-- KEYS          the keys, those of a family next to each other
-- ARGV[1]       '1' to overwrite what is there, '0' to leave it
-- ARGV[4i - 2]  the number of the family of KEYS[i]
-- ARGV[4i - 1]  its type
-- ARGV[4i]      't' and the text of the string, or 'd' and what DUMP returned
-- ARGV[4i + 1]  when it expires in ms since the epoch, or '-1' for never
-- Returns       a string of one byte a key: 'i' imported, 'a' already there, 'l' expired by
--               now, 'u' in use and left, 'f' of another type and left, 'v' left since the
--               server cannot read the dump, '-' left with another one of its family
-- Cost          a GET and a SET a key; a TYPE, a DUMP and a RESTORE for what is no string

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local absolute = (redis.REDIS_VERSION_NUM or 0) >= 0x00060200 -- which brought PXAT
local outcomes, before = {}, {}

-- look finds out what is to become of KEYS[i]; 'w' is to be written.
local function look(i)
  local key, kind, value, expires = KEYS[i], ARGV[4 * i - 1], ARGV[4 * i], tonumber(ARGV[4 * i + 1])
  local is, has = held(key, kind, value)
  before[i] = { value = has }
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
local function put(key, value, expires)
  local text = string.sub(value, 2)
  if string.byte(value) ~= 116 then
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
  local was = before[i]
  if was.value then
    put(KEYS[i], string.sub(ARGV[4 * i], 1, 1) .. was.value, was.expires)
  else
    redis.call('UNLINK', KEYS[i])
  end
end

-- write writes what is to be written of a family, and takes it back if a part of it fails. It
-- returns that error reply.
local function write(first, last)
  for i = first, last do
    if outcomes[i] == 'w' then
      local key, was = KEYS[i], before[i]
      was.expires = first < last and was.value and string.format('%.0f', expires_at(key)) or '-1'
      local done = put(key, ARGV[4 * i], ARGV[4 * i + 1])
      if type(done) == 'table' and done.err then
        for earlier = first, i - 1 do
          if outcomes[earlier] == 'i' then
            take_back(earlier)
            outcomes[earlier] = 'w'
          end
        end
        outcomes[i] = 'v'
        if string.find(done.err, 'can\'t run this command', 1, true) or string.find(done.err, '^NOPERM') then
          local command = string.byte(ARGV[4 * i]) == 116 and 'set' or 'restore'
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
    if last == #KEYS or ARGV[4 * last + 2] ~= ARGV[4 * first - 2] then
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

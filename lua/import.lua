-- Brings keys of limits back, ours or another limiter's, where that overwrites nothing it should not.
-- Keys of one limit come back together or not at all.
--
-- KEYS          the keys, those of one limit next to each other
-- ARGV[1]       '1' to overwrite what is there, '0' to leave it
-- ARGV[2i]      the kind and form of KEYS[i] and when it expires, as in held.lua
-- ARGV[2i + 1]  its value
-- Returns       a string of one byte a key: 'i' imported, 'a' already there, 'l' expired by now,
--               'u' in use and left, 'f' of another kind and left, 'v' left since the server
--               cannot read the dump, '-' left with another one of its limit
-- Cost          a GET and a SET a key; a TYPE, a DUMP and a RESTORE for what is no string

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local absolute = (redis.REDIS_VERSION_NUM or 0) >= 0x00060200 -- which brought PXAT
local outcomes, forms, expiries, before = {}, {}, {}, {}

-- look finds out what is to become of KEYS[i]; 'w' is to be written. It also returns whether the key
-- goes with the one before.
local function look(i)
  local key = KEYS[i]
  local kind, form, expires, with = kind_in(ARGV[2 * i])
  local is, value, same = held(key, kind, form, ARGV[2 * i + 1])
  expires = tonumber(expires)
  forms[i], expiries[i], before[i] = form, expires, is == kind and value
  if expires >= 0 and expires <= now then
    return 'l', with
  elseif is ~= 'none' and is ~= kind then
    return 'f', with
  elseif same then
    return 'a', with
  elseif is == kind and ARGV[1] ~= '1' then
    return 'u', with
  end
  return 'w', with
end

-- put writes a value and its expiry, and returns an error reply if that fails.
local function put(key, form, value, expires)
  local at = string.format('%.0f', expires)
  if form ~= 't' then
    return redis.pcall('RESTORE', key, expires < 0 and '0' or at, value, 'REPLACE', 'ABSTTL')
  elseif expires < 0 then
    return redis.pcall('SET', key, value)
  elseif absolute then
    return redis.pcall('SET', key, value, 'PXAT', at)
  end
  return redis.pcall('SET', key, value, 'PX', string.format('%.0f', expires - now))
end

-- take_back undoes the writing of keys of one limit, which expired at those times before.
local function take_back(first, last, expired)
  for i = first, last do
    if outcomes[i] == 'i' then
      if before[i] then
        put(KEYS[i], forms[i], before[i], expired[i])
      else
        redis.call('UNLINK', KEYS[i])
      end
      outcomes[i] = 'w'
    end
  end
end

-- write writes what is to be written of one limit, and takes it back if a part of it fails. It
-- returns that error reply.
local function write(first, last)
  local expired = first < last and {}
  for i = first, last do
    if outcomes[i] == 'w' then
      if expired and before[i] then
        expired[i] = expires_at(KEYS[i])
      end
      local done = put(KEYS[i], forms[i], ARGV[2 * i + 1], expiries[i])
      if type(done) == 'table' and done.err then
        take_back(first, i - 1, expired)
        outcomes[i] = 'v'
        if string.find(done.err, 'can\'t run this command', 1, true) or string.find(done.err, '^NOPERM') then
          local command = forms[i] == 't' and 'set' or 'restore'
          return { err = 'NOPERM this user has no permissions to run the \'' .. command .. '\' command' }
        end
        return done
      end
      outcomes[i] = 'i'
    end
  end
end

-- close writes the keys of one limit, unless one of them stays as it is. It returns the error reply
-- that ends the import.
local function close(first, last, stays)
  local failure = not stays and write(first, last)
  if failure and not string.find(failure.err, 'DUMP payload', 1, true) and not string.find(failure.err, 'Bad data format', 1, true) then
    return failure
  elseif stays or failure then
    for i = first, last do
      if outcomes[i] == 'w' then
        outcomes[i] = '-'
      end
    end
  end
end

local first, stays = 1, false
for i = 1, #KEYS do
  local outcome, with = look(i)
  if i > 1 and not with then
    local failure = close(first, i - 1, stays)
    if failure then
      return failure
    end
    first, stays = i, false
  end
  outcomes[i], stays = outcome, stays or outcome == 'f' or outcome == 'u'
end
return close(first, #KEYS, stays) or table.concat(outcomes)

-- Writes keys that other limiters wrote, if they still hold what they held when it was found
-- out what to write. Keys of one limit are a family, and are written together or not at all.
--
-- KEYS      the keys, those of a family next to each other; a key can come several times
-- ARGV      for each key seven: the number of its family; the type that it had, 'none' for
--           nothing; its value as in members_held.lua, or '' not to look at it; what to do, 's'
--           to set a string, 'h' a field of a hash, 'd' to delete it, '' nothing; the field; the text; for how
--           many ms to keep the key, '0' for as long as it is kept now
-- Returns   a string of one byte a key: '1' the family was written, 'c' it has changed
-- Cost      a GET, a PTTL and a SET a key; a TYPE, a DUMP and a HSET for what is no string

local outcomes = {}

local function has_changed(i)
  local kind, value = ARGV[7 * i - 5], ARGV[7 * i - 4]
  if kind == '' then
    return false
  end
  local is, _, same = held(KEYS[i], kind, '', value, stands_for)
  return is ~= kind or value ~= '' and not same
end

local function set(i)
  local key, what, field, text, ttl = KEYS[i], ARGV[7 * i - 3], ARGV[7 * i - 2], ARGV[7 * i - 1], ARGV[7 * i]
  if what == 'h' then
    redis.call('HSET', key, field, text)
    if ttl ~= '0' then
      local time = redis.call('TIME')
      local now = time[1] * 1000 + math.floor(time[2] / 1000)
      redis.call('PEXPIREAT', key, string.format('%.0f', now + tonumber(ttl)))
    end
  elseif what == 's' then
    local left = ttl ~= '0' and tonumber(ttl) or redis.call('PTTL', key)
    if left >= 0 then -- 0 in the last ms of a key, which is not to stay for ever
      redis.call('SET', key, text, 'PX', string.format('%.0f', math.max(left, 1)))
    else
      redis.call('SET', key, text)
    end
  elseif what == 'd' then
    redis.call('UNLINK', key)
  end
end

local first = 1
while first <= #KEYS do
  local last, changed = first, false
  while true do
    changed = changed or has_changed(last)
    if last == #KEYS or ARGV[7 * last + 1] ~= ARGV[7 * first - 6] then
      break
    end
    last = last + 1
  end
  for i = first, last do
    if not changed then
      set(i)
    end
    outcomes[i] = changed and 'c' or '1'
  end
  first = last + 1
end
return table.concat(outcomes)

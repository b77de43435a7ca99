-- Deletes keys of limits, ours or another limiter's, and leaves what has become something else. The
-- check and the deletion are one step, so that such a key is safe, and so is a backup of one used
-- since. All keys are looked at before any is deleted.
--
-- KEYS     the keys, those of one limit next to each other
-- ARGV     for each key two: its kind and form, as in held.lua, and the value that the caller has kept
-- Returns  an array: a string of one byte a key, '1' deleted, '0' not there, 'o' left since it is of
--          another kind, '-' left with another one of its limit, 'b' left since too much had to be
--          returned; then four elements for each key that was left (its index in KEYS, what it
--          holds, '', 0) or that was deleted and held another value than the caller has kept, or
--          for another time (its index, '', the value, when it would have expired in ms since the
--          epoch or -1)
-- Cost     a GET and an UNLINK a key; a TYPE, a DUMP or a PEXPIRETIME for what is no record

local done, news = {}, {}
local reported = 0

-- expiry_changed reports whether a key expires at another time than the caller has kept, as one does
-- that was blocked again. Before Redis 7 both times are computed, so a second or less is no change.
local function expiry_changed(key, kept)
  if kept == '' then
    return false
  end
  local at, was = expires_at(key), tonumber(kept)
  return (at < 0) ~= (was < 0) or math.abs(at - was) > 1000
end

-- look looks at KEYS[i]. It returns how many bytes the reply needs for it, and whether it goes with the
-- key before.
local function look(i)
  local key = KEYS[i]
  local kind, form, expires, with = kind_in(ARGV[2 * i - 1])
  local is, value, same = held(key, kind, form, ARGV[2 * i])
  if is == kind then
    done[i] = '1'
    if form ~= '-' and (not same or expiry_changed(key, expires)) then
      news[i] = value
      return #value, with
    end
  elseif is == 'none' then
    done[i] = '0'
  else
    done[i], news[i] = 'o', is
  end
  return 0, with
end

local function leave(first, last, why)
  for i = first, last do
    if done[i] ~= 'o' then
      done[i], news[i] = why, nil
    end
  end
end

-- close decides about the keys of one limit.
local function close(first, last, bytes)
  for i = first, last do
    if done[i] == 'o' then
      return leave(first, last, '-')
    end
  end
  if reported + bytes > 4194304 and (reported > 0 or bytes > 4 * 4194304) then
    return leave(first, last, 'b')
  end
  reported = reported + bytes
end

local first, bytes = 1, 0
for i = 1, #KEYS do
  local more, with = look(i)
  if i > 1 and not with then
    close(first, i - 1, bytes)
    first, bytes = i, 0
  end
  bytes = bytes + more
end
close(first, #KEYS, bytes)
for i = 1, #KEYS do
  if done[i] == 'o' then
    tell(i, news[i], '', 0)
  elseif news[i] then
    tell(i, '', news[i], expires_at(KEYS[i]))
  end
end
for i = 1, #KEYS do
  if done[i] == '1' then
    redis.call('UNLINK', KEYS[i])
  end
end
reply[1] = table.concat(done)
return reply

-- Deletes keys that other limiters wrote. Keys of one limit are a family, and go together or
-- stay together. The check and the deletion are one step, so that a key which became something
-- else since it was scanned is safe, and so is a backup of one used since. All is looked at
-- before anything is deleted.
--
-- KEYS      the keys, those of a family next to each other
-- ARGV      for each key four: the number of its family; the type that it had; the value that
--           the caller has kept, as in members_held.lua, or '' for none; when it then expired,
--           in ms since the epoch or -1
-- Returns   an array: a string of one byte a key, '1' deleted, '0' not there, 'o' left since it
--           has another type, '-' left with another one of its family, 'b' left since too much
--           had to be returned; then four elements for each key that was left (its index in
--           KEYS, its type, '', 0) or that was deleted and held another value than the caller
--           has kept, or for another time (its index, '', the value, when it would have expired
--           in ms since the epoch or -1)
-- Cost      a GET, a PEXPIRETIME and an UNLINK a key; a TYPE and a DUMP for what is no string

local done, news = {}, {}
local reported = 0

-- expiry_changed reports whether a key expires at another time than the caller has kept, as one does
-- that was blocked again. Before Redis 7 both times are computed, so a second or less is no change.
local function expiry_changed(key, kept)
  local at, was = expires_at(key), tonumber(kept)
  return (at < 0) ~= (was < 0) or math.abs(at - was) > 1000
end

-- look looks at KEYS[i], and returns how many bytes the reply needs for it.
local function look(i)
  local key, kind, kept = KEYS[i], ARGV[4 * i - 2], ARGV[4 * i - 1]
  local is, value, same = held(key, kind, kept, stands_for)
  if is == kind then
    done[i] = '1'
    if kept ~= '' and (not same or expiry_changed(key, ARGV[4 * i])) then
      news[i] = value
      return #value
    end
  elseif is == 'none' then
    done[i] = '0'
  else
    done[i], news[i] = 'o', is
  end
  return 0
end

local function leave(first, last, why)
  for i = first, last do
    if done[i] ~= 'o' then
      done[i], news[i] = why, nil
    end
  end
end

local first = 1
while first <= #KEYS do
  local last, bytes, foreign = first, 0, false
  while true do
    bytes = bytes + look(last)
    foreign = foreign or done[last] == 'o'
    if last == #KEYS or ARGV[4 * last + 1] ~= ARGV[4 * first - 3] then
      break
    end
    last = last + 1
  end
  if foreign then
    leave(first, last, '-')
  elseif reported + bytes > 4194304 and (reported > 0 or bytes > 4 * 4194304) then
    leave(first, last, 'b')
  else
    reported = reported + bytes
  end
  first = last + 1
end
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

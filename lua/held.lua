-- What delete.lua, import.lua and adjust.lua have in common: what is under a key, and what they tell
-- of it in their reply, an array.
--
-- A key has a kind: 'record' for a limit record of ours, be it damaged, else the type of a key that
-- another limiter wrote. Its value is the text of a record or string, and what DUMP returns of
-- anything else. What the caller has of a value has a form: 't' for a text, 'T' for its SHA-1 in
-- hexadecimal, 'd' for a dump, 'D' for its SHA-1, '-' for nothing.

local reply = { 0 }

local function tell(i, holds, value, expires)
  local n = #reply
  reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4] = i, holds, value, expires
end

-- stands_for reports whether kept, which the caller has in a form, is a value.
local function stands_for(form, kept, value)
  if form == 't' or form == 'd' then
    return kept == value
  end
  return form ~= '-' and kept == redis.sha1hex(value)
end

-- kind_in reads the kind of a key, the form of its value, and when the key expires, in ms since the
-- epoch or -1 for never, if that matters. With '+' in front the key goes with the one before it: keys
-- of one limit are changed together or not at all.
local function kind_in(text)
  if text == 'record t' then -- as nearly always
    return 'record', 't', '', false
  end
  local with, kind, form, expires = string.match(text, '^(%+?)(%S+) (%S) ?(%-?%d*)$')
  return kind, form, expires, with == '+'
end

-- holds tells what is under a key: nil for nothing, 'record', or in words what limitctl did not write.
local function holds(key)
  local head = redis.pcall('GETRANGE', key, '0', '25')
  if type(head) == 'table' then
    if not string.find(head.err, 'WRONGTYPE', 1, true) then
      redis.call('GETRANGE', key, '0', '0') -- fails by its name
    end
    local kind = redis.pcall('TYPE', key)
    return 'a ' .. (kind.ok or 'value of another type') .. ', which is not a limit record'
  elseif #head == 26 and string.find(head, '^RL[\1-\4][\1-\7]')
    and redis.call('GETRANGE', key, '12500057', '12500057') == '' then -- no record is longer
    return 'record'
  elseif head == '' and redis.call('EXISTS', key) == 0 then
    return nil
  end
  return string.format('%.0f', redis.call('STRLEN', key)) .. ' bytes that are not a limit record'
end

-- held returns the kind of a key, 'none' for nothing, or what it holds instead of a record; its value
-- if it is of that kind; and whether that is what the caller has. Without that the value is ''.
local function held(key, kind, form, kept)
  local is_text = form == 't' or form == 'T'
  if is_text then
    local text = redis.pcall('GET', key)
    if not text then
      return 'none'
    elseif type(text) == 'table' and not string.find(text.err, 'WRONGTYPE', 1, true) then
      redis.call('GET', key) -- fails by its name
    elseif type(text) == 'string' then
      local same = stands_for(form, kept, text)
      if kind == 'string' or same then
        return kind, text, same
      end
      return holds(key), text
    end
  end
  if kind == 'record' then
    return holds(key) or 'none', ''
  elseif form == 'd' or form == 'D' then
    local dump = redis.call('DUMP', key)
    if not dump then
      return 'none'
    elseif stands_for(form, kept, dump) then
      return kind, dump, true
    end
  end
  local is = redis.call('TYPE', key).ok
  if is ~= kind or form == '-' then
    return is, ''
  end
  return is, redis.call('DUMP', key)
end

-- Before Redis 7 there is no PEXPIRETIME. It is asked for once in a call.
local has_expiretime = true

-- expires_at returns when a key expires, in ms since the epoch, or -1 for never.
-- Without PEXPIRETIME that has to be computed, and may be a millisecond off.
local function expires_at(key)
  local at = has_expiretime and redis.pcall('PEXPIRETIME', key)
  if type(at) == 'number' then
    return at
  end
  has_expiretime = false
  local left = redis.call('PTTL', key)
  if left < 0 then
    return -1
  end
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000) + left
end

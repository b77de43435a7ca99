-- What the scripts for keys of other limiters have in common: what is under a key. A value is
-- the text of a string, what DUMP returns of anything else, or the text of a field of a hash.
-- One that the caller has kept begins with 't' if it is a text and 'd' if it is a dump, and
-- goes on as in kept.lua.

-- held returns the type of a key, and its value if the type is kind. The value is nil if the
-- field is not there. It is '' if nothing was kept to compare it with. same, if it is given,
-- tells of a value whether that is what was kept, which then has its type.
local function held(key, kind, field, kept, same)
  if field == '' and string.byte(kept) == 116 then -- 't'
    local text = redis.pcall('GET', key)
    if type(text) == 'string' then
      return 'string', text
    elseif not text then
      return 'none'
    elseif not string.find(text.err, 'WRONGTYPE', 1, true) then
      redis.call('GET', key) -- fails by its name
    end
  elseif field == '' and kept ~= '' and same then
    local dump = redis.call('DUMP', key)
    if not dump then
      return 'none'
    elseif same(string.sub(kept, 2), dump) then
      return kind, dump
    end
  end
  local is = redis.call('TYPE', key).ok
  if is ~= kind then
    return is
  elseif field ~= '' then
    return is, redis.call('HGET', key, field) or nil
  elseif kept == '' then
    return is, ''
  end
  return is, redis.call('DUMP', key)
end

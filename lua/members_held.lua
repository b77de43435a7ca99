-- What the scripts for keys of other limiters have in common: what is under a key. A value is
-- the text of a string, or what DUMP returns of anything else. One that the caller has kept
-- begins with 't' if it is a text and 'd' if it is a dump, and goes on as in kept.lua.

-- held returns the type of a key, its value if the type is kind, and whether that is what was
-- kept. The value is '' if nothing was kept to compare it with. same tells whether kept stands
-- for a value, as stands_for does. Without it kept only says how the value is to be read.
local function held(key, kind, kept, same)
  if string.byte(kept) == 116 then -- 't'
    local text = redis.pcall('GET', key)
    if type(text) == 'string' then
      return 'string', text, same and same(kept, text, 't')
    elseif not text then
      return 'none'
    elseif not string.find(text.err, 'WRONGTYPE', 1, true) then
      redis.call('GET', key) -- fails by its name
    end
  elseif kept ~= '' and same then
    local dump = redis.call('DUMP', key)
    if not dump then
      return 'none'
    elseif same(kept, dump, 'd') then
      return kind, dump, true
    end
  end
  local is = redis.call('TYPE', key).ok
  if is ~= kind then
    return is
  elseif kept == '' then
    return is, ''
  end
  return is, redis.call('DUMP', key)
end

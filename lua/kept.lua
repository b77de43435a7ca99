-- What delete.lua and adjust.lua have in common: values that the caller has kept, and what they
-- tell of a key in their reply, an array. A value is kept as '=' and the value, or as '#' and
-- its SHA-1 in hexadecimal, or '' for nothing.

local reply = { 0 }

local function tell(i, holds, value, expires)
  local n = #reply
  reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4] = i, holds, value, expires
end

-- stands_for reports whether kept stands for value. mark, if it is given, is what kept begins
-- with.
local function stands_for(kept, value, mark)
  mark = mark or ''
  local form = string.sub(kept, #mark + 1, #mark + 1)
  if form == '=' then
    return #kept == #mark + 1 + #value and kept == mark .. '=' .. value
  end
  return form == '#' and kept == mark .. '#' .. redis.sha1hex(value)
end

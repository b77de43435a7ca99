-- Reads overrides, all at one instant.
--
-- KEYS[1]  the index of the overrides
-- KEYS[2]… the overrides that it had when it was read before
-- Returns  the server's clock in ms, the index, and what is under each of the other keys: '' for
--          nothing, 1 for a value of another type
-- Cost     one TIME, and a GETRANGE for each key

local index, wrong = read(1, '14041', 'an index of overrides')
if wrong then
  return wrong
end
local reply = { clock, index }
for i = 2, #KEYS do
  local record, failed = read(i, '16399', 'an override')
  if failed and string.sub(failed.err, 1, 7) ~= 'FOREIGN' then
    return failed
  end
  reply[i + 1] = record or 1
end
return reply

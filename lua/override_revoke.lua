-- Ends an override.
--
-- KEYS[1]  the index of the overrides
-- KEYS[2]  the key of the override
-- ARGV[1]  its ID
-- ARGV[2]  the version of the index from now on
-- ARGV[3]  the instant that counts, in ms; the server's clock unless given
-- Returns  the instant in ms, and what was under the key, '' for nothing
-- Cost     one TIME, two GETRANGE, one UNLINK and SET

local id, version = ARGV[1], ARGV[2]
local now, later = clock, 0
if ARGV[3] then
  now, later = tonumber(ARGV[3]), 3600000
end
local entries, count, last, found = others(now, id)
if not entries then
  return count
end
local record, wrong = read(2, '16399', 'an override')
if wrong then
  return wrong
elseif record ~= '' and (string.sub(record, 1, 3) ~= 'RO\001' or #record > 16399) then
  return foreign(2, 'a value that is not an override')
elseif record == '' and not found then
  return { now, '' }
end
redis.call('UNLINK', KEYS[2])
if count == 0 then
  redis.call('UNLINK', KEYS[1])
else
  write(version, entries, last, now, later)
end
return { now, record }

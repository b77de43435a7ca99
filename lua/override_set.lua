-- Sets an override.
--
-- KEYS[1]  the index of the overrides
-- KEYS[2]  the key of the new one
-- ARGV[1]  its ID
-- ARGV[2]  the version of the index from now on
-- ARGV[3]  how long it lasts, in ms
-- ARGV[4]  it as JSON text
-- ARGV[5]  the instant that counts, in ms; the server's clock unless given
-- Returns  when it was set, in ms since the epoch
-- Errors   FULL: there are MAX_OVERRIDES. TAKEN: there is a key of this ID.
-- Cost     one TIME, GETRANGE, EXISTS and two SET

local id, version, lasts, text = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]
local now, later = clock, 0
if ARGV[5] then
  now, later = tonumber(ARGV[5]), 3600000
end
local entries, count, last = others(now, id)
if not entries then
  return count
elseif count >= MAX_OVERRIDES then
  return { err = 'FULL' }
elseif redis.call('EXISTS', KEYS[2]) == 1 then
  return { err = 'TAKEN' }
end
local ends = now + lasts
-- The index comes first: an entry without its override is left out by readers.
write(version, entries .. id .. struct.pack('>I6', ends), math.max(last, ends), now, later)
redis.call('SET', KEYS[2], OVERRIDE_MAGIC .. struct.pack('>I6I6', now, ends) .. text, 'PX', string.format('%.0f', lasts + later))
return now

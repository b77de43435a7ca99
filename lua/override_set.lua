-- Sets an override. One of the same ID that is about the same and does the same gets the new end and reason.
--
-- KEYS[1]  the index of the overrides
-- KEYS[2]  the key of the override
-- ARGV[1]  its ID
-- ARGV[2]  the version of the index from now on
-- ARGV[3]  how long it lasts, in ms
-- ARGV[4]  it as JSON text
-- ARGV[5]  how many bytes of the text say whom it is about and what it does
-- ARGV[6]  the instant that counts, in ms; the server's clock unless given
-- Returns  when it was set, in ms since the epoch
-- Errors   FULL: there are 1000. TAKEN: the key of this ID holds something else.
-- Cost     one TIME, two GETRANGE and SET

local id, version, lasts, text, which = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4], tonumber(ARGV[5])
local now, later = clock, 0
if ARGV[6] then
  now, later = tonumber(ARGV[6]), 3600000
end
local entries, count, last = others(now, id)
if not entries then
  return count
elseif count >= 1000 then
  return { err = 'FULL' }
end
local record, wrong = read(2, '16399', 'an override')
if wrong and string.sub(wrong.err, 1, 7) ~= 'FOREIGN' then
  return wrong
elseif record ~= '' then
  local same = record and string.sub(record, 1, 3) == 'RO\001'
    and string.sub(record, 16, 15 + which) == string.sub(text, 1, which)
    and string.find(record, '^[,}]', 16 + which)
  if not same then
    return { err = 'TAKEN' }
  end
end
local ends = now + lasts
-- The index comes first: an entry without its override is left out by readers.
write(version, entries .. id .. struct.pack('>I6', ends), math.max(last, ends), now, later)
redis.call('SET', KEYS[2], 'RO\001' .. struct.pack('>I6I6', now, ends) .. text, 'PX', string.format('%.0f', lasts + later))
return now

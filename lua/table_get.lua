-- Reads records of a side table, all at one instant.
--
-- KEYS     the keys of the records
-- ARGV[1]  the most bytes of a record; of a longer one there is one byte more, so that readers refuse it
-- ARGV[2]  'time' to tell the server's clock, 'ttl' to tell what each record has left, '' for neither
-- Returns  the server's clock in ms, or 0; then of each key that holds something its place in KEYS, the record, or 0 for a value
--          of another type, and what it has left in ms, or 0
-- Cost     one TIME or a PTTL for each record, and a GETRANGE for each key

local found = { 0 }
if ARGV[2] == 'time' then
  local time = redis.call('TIME')
  found[1] = time[1] * 1000 + math.floor(time[2] / 1000)
end
for i = 1, #KEYS do
  local record = redis.pcall('GETRANGE', KEYS[i], '0', ARGV[1])
  if type(record) == 'table' then
    if not string.find(record.err, 'WRONGTYPE', 1, true) then
      return record
    end
    record = 0
  end
  if record ~= '' then
    local n = #found
    found[n + 1], found[n + 2], found[n + 3] = i, record, ARGV[2] == 'ttl' and redis.call('PTTL', KEYS[i]) or 0
  end
end
return found

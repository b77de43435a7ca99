-- Changes records of a side table, if the one that guards them is what the caller has read.
--
-- KEYS[1]  the guard
-- KEYS[2]… the records
-- KEYS[#]  a list of texts, a stream, if there is a text
-- ARGV[1]  the guard: as many bytes as ARGV[3] from ARGV[2] on; '' for none, for a value of another type, and for one from 0 on
--          that is longer
-- ARGV[4]  a text for the list, '' for none, and in ARGV[5] how many are kept
-- ARGV[6]… for each record what it becomes, '' to remove it, and how many ms it is kept, '' for ever
-- Returns  1, or 0 if the guard is another one now, and nothing was changed
-- Cost     one GETRANGE, a SET or UNLINK for each record; with a text one XREVRANGE, XADD, UNLINK and SET more

-- All that can be refused comes before the first write.
local first, most = tonumber(ARGV[2]), tonumber(ARGV[3])
local guard = redis.pcall('GETRANGE', KEYS[1], first, first + most)
if type(guard) == 'table' and not string.find(guard.err, 'WRONGTYPE', 1, true) then
  return guard
elseif type(guard) == 'table' or first == 0 and #guard > most then
  guard = ''
end
if string.sub(guard, 1, most) ~= ARGV[1] then
  return 0
end
local records = #KEYS
if ARGV[4] ~= '' then
  records = records - 1
  local last = redis.pcall('XREVRANGE', KEYS[#KEYS], '+', '-', 'COUNT', '1')
  if last.err and string.find(last.err, 'WRONGTYPE', 1, true) then
    return { err = 'FOREIGN ' .. #KEYS .. ' a value that limitctl did not write' }
  elseif last.err then
    redis.call('XREVRANGE', KEYS[#KEYS], '+', '-', 'COUNT', '1') -- fails again, and the reply says where
  end
  -- These change nothing that anybody knows of, and fail if the user lacks the right to write. In a full server the UNLINK also
  -- lets the rest be written.
  redis.call('UNLINK', KEYS[2])
  redis.call('SET', KEYS[2], '', 'XX')
  redis.call('XADD', KEYS[#KEYS], 'MAXLEN', ARGV[5], '*', 'text', ARGV[4])
end
-- A full server refuses the first write of a script unless that frees memory, and an operator's word must get through.
-- The server looks at the right to write first, so what is removed here is written next.
local function set(key, ...)
  local done = redis.pcall('SET', key, ...)
  if done.err then
    if string.find(done.err, 'OOM', 1, true) then
      redis.call('UNLINK', key)
    end
    redis.call('SET', key, ...) -- fails again if it is another error, and the reply says where
  end
end

for i = 2, records do
  local value, left = ARGV[2 + 2 * i], ARGV[3 + 2 * i]
  if value == '' then
    redis.call('UNLINK', KEYS[i])
  elseif left == '' then
    set(KEYS[i], value)
  else
    set(KEYS[i], value, 'PX', left)
  end
end
return 1

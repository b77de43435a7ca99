-- Publishes a configuration, or changes which version is in force.
--
-- KEYS[1]  the head
-- KEYS[2]  the history, a stream
-- KEYS[3]  the record of the new version; any key of the table without one
-- KEYS[4]… the versions that are no longer kept
-- ARGV[1]  the head for which the change was made, '' for none
-- ARGV[2]  the head afterwards
-- ARGV[3]  the record, '' for none
-- ARGV[4]  the line for the history
-- ARGV[5]  how many lines of the history are kept
-- Returns  1, or 0 if the head is another one now, and nothing was changed
-- Cost     two GETRANGE, one XREVRANGE, UNLINK, XADD and SET

-- foreign is the error about a key that holds something else, or another error of the command.
local function foreign(key, wrong, command, holds)
  if string.find(wrong, 'WRONGTYPE', 1, true) then
    return { err = 'FOREIGN ' .. key .. ' ' .. holds }
  end
  return { err = wrong .. ' (' .. command .. ')' }
end

-- All that can be refused comes before the first write.
local head = redis.pcall('GETRANGE', KEYS[1], '0', 'MAX_CONFIG_HEAD')
if type(head) == 'table' then
  return foreign(1, head.err, 'GETRANGE', 'a value that is not the head of published configurations')
elseif head ~= ARGV[1] then
  return 0
end
local last = redis.pcall('XREVRANGE', KEYS[2], '+', '-', 'COUNT', '1')
if last.err then
  return foreign(2, last.err, 'XREVRANGE', 'a value that is not a history of configurations')
end
-- A user who may not UNLINK changes nothing, and one who may only do that drops nothing that would have stayed.
for i = 4, #KEYS do
  redis.call('UNLINK', KEYS[i])
end
redis.call('XADD', KEYS[2], 'MAXLEN', ARGV[5], '*', 'text', ARGV[4])
if ARGV[3] ~= '' then
  redis.call('SET', KEYS[3], ARGV[3])
end
redis.call('SET', KEYS[1], ARGV[2])
return 1

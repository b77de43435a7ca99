-- Publishes a configuration, or changes which version is in force.
--
-- KEYS[1]  the head
-- KEYS[2]  the history, a stream
-- KEYS[3]  the record of the new version; without one a key that is not used
-- KEYS[4]… the versions that are no longer kept
-- ARGV[1]  the head for which the change was made, '' for none and for a value that is no head
-- ARGV[2]  the head afterwards
-- ARGV[3]  the record, '' for none
-- ARGV[4]  the line for the history
-- ARGV[5]  how many lines of the history are kept
-- Returns  1, or 0 if the head is another one now, and nothing was changed
-- Cost     one GETRANGE, XREVRANGE and XADD, two UNLINK, and three SET

-- All that can be refused comes before the first write.
local head = redis.pcall('GETRANGE', KEYS[1], '0', '4096')
if type(head) == 'table' and not string.find(head.err, 'WRONGTYPE', 1, true) then
  return { err = head.err .. ' (GETRANGE)' }
elseif type(head) == 'table' or #head > 4096 then
  head = ''
end
if head ~= ARGV[1] then
  return 0
end
local last = redis.pcall('XREVRANGE', KEYS[2], '+', '-', 'COUNT', '1')
if last.err then
  if string.find(last.err, 'WRONGTYPE', 1, true) then
    return { err = 'FOREIGN 2 a value that is not a history of configurations' }
  end
  return { err = last.err .. ' (XREVRANGE)' }
end
-- These change nothing that anybody knows of, and fail if the user lacks the right to write. In a full server the UNLINK also
-- lets the rest be written.
redis.call('UNLINK', KEYS[3])
redis.call('SET', KEYS[3], '', 'XX')
redis.call('XADD', KEYS[2], 'MAXLEN', ARGV[5], '*', 'text', ARGV[4])
if ARGV[3] ~= '' then
  redis.call('SET', KEYS[3], ARGV[3])
end
redis.call('SET', KEYS[1], ARGV[2])
for i = 4, #KEYS do
  redis.call('UNLINK', KEYS[i])
end
return 1

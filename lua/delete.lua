-- Deletes keys that hold limit records, and leaves all others as they are. The
-- check and the deletion are one step, so that a key which became somebody
-- else's since it was scanned is safe.
--
-- KEYS     the keys to delete; a damaged record is one of ours
-- Returns  an array: the number deleted, then for each key that was left the
--          index in KEYS and what it holds
-- Cost     one GETRANGE and one UNLINK a key

local reply = { 0 }
for i = 1, #KEYS do
  local key = KEYS[i]
  local head = redis.pcall('GETRANGE', key, '0', '25') -- what all records begin with
  if type(head) == 'table' then
    if not string.find(head.err, 'WRONGTYPE', 1, true) then
      return head
    end
    local kind = redis.pcall('TYPE', key)
    reply[#reply + 1] = i
    reply[#reply + 1] = 'a ' .. (kind.ok or 'value of another type') .. ', which is no limit record'
  elseif #head == 26 and string.find(head, '^RL\1[\1-\5]') then
    reply[1] = reply[1] + redis.call('UNLINK', key)
  elseif head ~= '' or redis.call('EXISTS', key) == 1 then
    reply[#reply + 1] = i
    reply[#reply + 1] = string.format('%.0f', redis.call('STRLEN', key)) .. ' bytes that are no limit record'
  end
end
return reply

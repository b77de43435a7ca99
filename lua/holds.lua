-- holds tells what is under a key: nil for nothing, 'record' for a record of ours,
-- be it damaged, or in words what limitctl did not write. An error reply is returned
-- as it is, a table.
local function holds(key)
  local head = redis.pcall('GETRANGE', key, '0', '25')
  if type(head) == 'table' then
    if not string.find(head.err, 'WRONGTYPE', 1, true) then
      return { err = head.err .. ' (GETRANGE)' }
    end
    local kind = redis.pcall('TYPE', key)
    return 'a ' .. (kind.ok or 'value of another type') .. ', which is not a limit record'
  elseif #head == 26 and string.find(head, '^RL[\1-\4][\1-\7]')
    and redis.call('GETRANGE', key, '12500057', '12500057') == '' then -- no record is longer
    return 'record'
  elseif head == '' and redis.call('EXISTS', key) == 0 then
    return nil
  end
  return string.format('%.0f', redis.call('STRLEN', key)) .. ' bytes that are not a limit record'
end

-- Before Redis 7 there is no PEXPIRETIME. It is asked for once in a call.
local has_expiretime = true

-- expires_at returns when a key expires, in ms since the epoch, or -1 for never.
-- Without PEXPIRETIME that has to be computed, and may be a millisecond off.
local function expires_at(key)
  local at = has_expiretime and redis.pcall('PEXPIRETIME', key)
  if type(at) == 'number' then
    return at
  end
  has_expiretime = false
  local left = redis.call('PTTL', key)
  if left < 0 then
    return -1
  end
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000) + left
end

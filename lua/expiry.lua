-- set stores a value with its expiry, in one command.
local function set(key, value, unused_at)
  redis.call('SET', key, value, expires, milliseconds(unused_at - expires_from))
end

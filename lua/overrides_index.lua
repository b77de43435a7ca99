-- The index of the overrides is a string, so that its version is read by one GETRANGE:
--
--   offset size
--        0    3  'RI\001', which ends in the format's version
--        3    6  when the last override ends, in ms since the epoch
--        9   32  the version, another one whenever anything changed
--       41       for each override: its ID 8, when it ends 6
--
-- It ends together with the last override. An override is a string of its own: the magic
-- 'RO\001' 3, when it was set 6, when it ends 6, and then JSON text.

local time = redis.call('TIME')
local clock = time[1] * 1000 + math.floor(time[2] / 1000)

-- foreign is the error about a key that holds something else.
local function foreign(key, holds)
  return { err = 'FOREIGN ' .. key .. ' ' .. holds }
end

-- read returns at most so many bytes of the string under a key, or nothing and an error.
local function read(key, most, what)
  local value = redis.pcall('GETRANGE', KEYS[key], '0', most)
  if type(value) == 'table' then
    if string.find(value.err, 'WRONGTYPE', 1, true) then
      return nil, foreign(key, 'a value that is not ' .. what)
    end
    return nil, { err = value.err .. ' (GETRANGE)' }
  end
  return value
end

-- others returns the entries of the index that have not ended at now, except that of id, and how
-- many there are, when the last of them ends, and whether id was among all; or nothing and an error.
local function others(now, id)
  local index, wrong = read(1, '14041', 'an index of overrides')
  if wrong then
    return nil, wrong
  elseif index == '' then
    return '', 0, 0, false
  elseif #index > 14041 or string.sub(index, 1, 3) ~= 'RI\001' or (#index - 41) % 14 ~= 0
    or #index < 41 then
    return nil, foreign(1, 'a value that is not an index of overrides')
  end
  local kept, last, found = {}, 0, false
  for at = 42, #index, 14 do
    local ends = struct.unpack('>I6', index, at + 8)
    if string.sub(index, at, at + 7) == id then
      found = ends > now
    elseif ends > now then
      kept[#kept + 1] = string.sub(index, at, at + 13)
      last = math.max(last, ends)
    end
  end
  return table.concat(kept), #kept, last, found
end

-- write writes the index. Keys end a while after the clock says so, if that is not the server's.
local function write(version, entries, last, now, later)
  redis.call('SET', KEYS[1], 'RI\001' .. struct.pack('>I6', last) .. version .. entries, 'PX',
    string.format('%.0f', last - now + later))
end

-- Reads the reports of processes about published configurations, at one instant.
--
-- KEYS     the places of the reports
-- Returns  of each place that has a report: its number from 0, the report, and what it has left in ms; a report that
--          is too long is cut, so that readers refuse it
-- Cost     a GETRANGE for each place, and a PTTL for each report

local found = {}
for i = 1, #KEYS do
  local report = redis.pcall('GETRANGE', KEYS[i], '0', '1024')
  if type(report) == 'string' and report ~= '' then
    found[#found + 1] = i - 1
    found[#found + 1] = report
    found[#found + 1] = redis.call('PTTL', KEYS[i])
  elseif type(report) == 'table' and not string.find(report.err, 'WRONGTYPE', 1, true) then
    return { err = report.err .. ' (GETRANGE)' }
  end
end
return found

-- Exact whole-number arithmetic in Lua's doubles. They hold integers exactly
-- below 2^53; a·b of this project has up to 2^98.
--
-- Lua computes a % d as a - floor(a / d) · d. Where a stays below 0.9 · 2^53 and d
-- below 10^15, as everything here does, that is exact: the rounding of a / d is
-- then less than the 1 / d by which it can miss a whole number. And what is left
-- of a divides exactly.
--
-- Functions here and in record.lua capture as few locals as they can: a script
-- makes them anew on each call, and each captured local costs a memory allocation. The Go twin of mul_div is
-- mulAddDiv in pkg/limiter/store/arithmetic.go.

-- mul_div returns the quotient and remainder of a·b ÷ d, for a time 0 <= a < 2^53,
-- units 0 <= b <= 2^30, and units or a period 0 < d <= 31622400000000 (366 days in
-- microseconds). The order matters: only b is taken apart, into 35 bits.
-- A quotient beyond 2^53 is inexact, which only happens where it is far above
-- all usage and serves as "everything".
local function mul_div(a, b, d)
  local product = a * b
  if product < 8e15 then
    local remainder = product % d
    return (product - remainder) / d, remainder
  end
  local whole = a
  a = a % d
  whole = (whole - a) / d
  -- Long multiplication of a < d by b's five 7-bit digits, the remainder kept
  -- below d: each step stays below 255·d < 2^53.
  local quotient, remainder = 0, 0
  for shift = 28, 0, -7 do
    local step = remainder * 128 + a * (math.floor(b / 2 ^ shift) % 128)
    remainder = step % d
    quotient = quotient * 128 + (step - remainder) / d
  end
  return whole * b + quotient, remainder
end

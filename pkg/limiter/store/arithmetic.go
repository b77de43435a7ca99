package store

import (
	"math"
	"math/bits"
)

// mulAddDiv returns the quotient and the remainder of (a·b + c) ÷ d, exactly: the product may have 126 bits. a, b and
// c must not be negative and d must be positive. A quotient too large for an int64 is given as MaxInt64, remainder 0.
//
// The same function stands in lua/frame.lua, there in 53-bit steps.
func mulAddDiv(a, b, c, d int64) (quotient, remainder int64) {
	high, low := bits.Mul64(uint64(a), uint64(b))
	low, carry := bits.Add64(low, uint64(c), 0)
	high += carry
	if high == 0 && low < 1<<52 {
		// The usual case. A float's division is several times faster than an integer's. Its rounding, less than 1/d
		// where the product is below 2⁵², cannot carry the quotient up to the next whole number.
		if low < uint64(d) {
			return 0, int64(low)
		}
		quotient = int64(float64(low) / float64(d))
		return quotient, int64(low) - quotient*d
	}
	if high >= uint64(d) {
		return math.MaxInt64, 0
	}
	q, r := bits.Div64(high, low, uint64(d))
	if q > math.MaxInt64 {
		return math.MaxInt64, 0
	}
	return int64(q), int64(r)
}

// mulAddDivCeil is mulAddDiv rounded up, at most to MaxInt64.
func mulAddDivCeil(a, b, c, d int64) int64 {
	q, r := mulAddDiv(a, b, c, d)
	if r > 0 && q < math.MaxInt64 {
		q++
	}
	return q
}

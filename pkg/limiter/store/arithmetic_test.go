package store

import (
	"math"
	"math/big"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// checkMulAddDiv compares both functions with arbitrary precision.
func checkMulAddDiv(t interface{ Fatalf(string, ...any) }, a, b, c, d int64) {
	bigD := big.NewInt(d)
	sum := new(big.Int).Mul(big.NewInt(a), big.NewInt(b))
	sum.Add(sum, big.NewInt(c))
	quotient, remainder := new(big.Int).QuoRem(sum, bigD, new(big.Int))
	wantQ, wantR, wantCeil := int64(math.MaxInt64), int64(0), int64(math.MaxInt64)
	if quotient.IsInt64() {
		wantQ, wantR = quotient.Int64(), remainder.Int64()
		if wantCeil = wantQ; wantR > 0 && wantQ < math.MaxInt64 {
			wantCeil++
		}
	}
	if q, r := mulAddDiv(a, b, c, d); q != wantQ || r != wantR {
		t.Fatalf("(%d·%d + %d) ÷ %d is %d, remainder %d; not %d, remainder %d", a, b, c, d, wantQ, wantR, q, r)
	}
	if q := mulAddDivCeil(a, b, c, d); q != wantCeil {
		t.Fatalf("(%d·%d + %d) ÷ %d is %d rounded up, not %d", a, b, c, d, wantCeil, q)
	}
}

// Where the ways of computing meet: one word and two, a float's 53 bits, an int64's end.
var specialNumbers = []int64{
	0, 1, 2, 3, 10, 999, 1 << 20, 1<<26 - 1, 1 << 26, 94906266 /* √2⁵³, rounded up */, 1<<31 - 1, 1 << 32,
	MaxCount, 31_622_400_000_000 /* MaxPeriod */, 1<<53 - 1, 1 << 53, 1<<53 + 1, 1<<62 - 1, 1 << 62, math.MaxInt64 - 1,
	math.MaxInt64,
}

func TestMulAddDivOfSpecialNumbers(t *testing.T) {
	for _, a := range specialNumbers {
		for _, b := range specialNumbers {
			for _, c := range specialNumbers {
				for _, d := range specialNumbers[1:] {
					checkMulAddDiv(t, a, b, c, d)
				}
			}
		}
	}
}

// A float's quotient rounds up to the next whole number just below a multiple of
// the divisor, and a product that is one is where rounding up must not.
func TestMulAddDivBesideMultiples(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		for range 20 {
			d := rapid.Int64Range(1, 1<<53).Draw(t, "d") >> rapid.IntRange(0, 52).Draw(t, "shift")
			d = max(1, d)
			quotient := rapid.Int64Range(0, math.MaxInt64/d-1).Draw(t, "quotient")
			if small := (1 << 53) / d; rapid.Bool().Draw(t, "small") {
				quotient %= small + 1
			}
			for _, off := range slices.Compact([]int64{0, 1, d - 1}) {
				checkMulAddDiv(t, d, quotient, off, d)
				checkMulAddDiv(t, 1, d*quotient, off, d)
			}
		}
	})
}

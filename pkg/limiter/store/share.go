package store

import (
	"math/big"
	"strconv"
	"strings"
)

// Share is a part of a limit, in millionths, from 1 to [WholeShare].
type Share uint32

const (
	// WholeShare is all of a limit, 100 %.
	WholeShare Share = 1_000_000
	// DefaultShare is the default share of a fallback store in each limit, 25 %.
	DefaultShare Share = WholeShare / 4
)

// percent is the share of 1 %.
const percent = WholeShare / 100

// ParseShare reads a share in percent ("20%", "12.5%") or as a fraction ("0.2"). It must be more than 0 and at most
// 100 %, in whole millionths. The error is an [ErrInvalid] that quotes text.
func ParseShare(text string) (Share, error) {
	number, inPercent := strings.CutSuffix(text, "%")
	one := WholeShare
	if inPercent {
		one = percent
	}
	if part, ok := ParseDecimal(number); ok {
		part.Mul(part, new(big.Rat).SetInt64(int64(one)))
		if part.IsInt() && part.Sign() > 0 && part.Cmp(new(big.Rat).SetInt64(int64(WholeShare))) <= 0 {
			return Share(part.Num().Int64()), nil
		}
	}
	if whole, err := strconv.ParseUint(text, 10, 32); err == nil && whole > 1 && whole <= 100 {
		return 0, Invalidf("share %q is more than the whole limit; write %s%% for a part", text, text)
	}
	return 0, Invalidf("share %q is not a part of a limit; write it like 20%% or 0.2, more than 0 and at most 100%%, "+
		"with at most four decimals of a percent", text)
}

// String returns s in percent, as [ParseShare] reads it: "25%", "12.5%".
func (s Share) String() string {
	text := strconv.FormatFloat(float64(s)/float64(percent), 'f', 4, 64) // exact to its last digit
	return strings.TrimRight(strings.TrimRight(text, "0"), ".") + "%"
}

// Of returns the share s of l: of its count and its burst, each rounded down and at least 1. The burst is smaller if
// otherwise, because of the rounding, the bucket took more than [MaxDrain] to empty.
func (s Share) Of(l Limit) Limit {
	return l.scale(func(units int64) int64 { return units * int64(s) / int64(WholeShare) })
}

package store

import (
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
)

// ParseNumber reads a whole number as people write it, wherever they do: "200", "1_000", "1k" for a thousand, or "2M" for
// two million. The error is an [ErrInvalid] that begins with what.
func ParseNumber(what, text string, least, most int64) (int64, error) {
	n, is, fits := parseWhole(text)
	switch {
	case !is && what == "count":
		return 0, Invalidf("%s %q is not a whole number; write COUNT/PERIOD, such as 10/1m", what, text)
	case !is:
		return 0, Invalidf("%s %q is not a whole number, such as 200 or 2k", what, text)
	case !fits || n < least || n > most:
		if most == math.MaxInt64 {
			return 0, Invalidf("%s %s is out of range", what, text)
		}
		return 0, Invalidf("%s %s is out of range; it must be from %d to %d", what, text, least, most)
	}
	return n, nil
}

// ParseDecimal reads a number without a sign, as [ParseNumber] does or with a point, such as "1.5".
func ParseDecimal(text string) (number *big.Rat, ok bool) {
	if n, is, fits := parseWhole(text); is {
		return new(big.Rat).SetInt64(n), fits && text[0] != '-'
	}
	const most = 24 // more characters than a measured number has, so that it cannot make much work
	whole, fraction, _ := strings.Cut(text, ".")
	if len(text) > most || whole == "" || fraction == "" || strings.Trim(whole+fraction, "0123456789") != "" {
		return nil, false
	}
	return new(big.Rat).SetString(text)
}

// parseWhole reports whether text is a whole number, and whether it fits in an int64.
func parseWhole(text string) (n int64, is, fits bool) {
	digits, factor := text, int64(1)
	switch {
	case strings.HasSuffix(text, "k"), strings.HasSuffix(text, "K"):
		digits, factor = text[:len(text)-1], 1000
	case strings.HasSuffix(text, "M"):
		digits, factor = text[:len(text)-1], 1_000_000
	}
	groups := strings.Split(digits, "_")
	if groups[0] != "" && !slices.ContainsFunc(groups[1:], func(group string) bool { return len(group) != 3 }) {
		digits = strings.Join(groups, "")
	}
	if unsigned := strings.TrimPrefix(digits, "-"); unsigned == "" || strings.Trim(unsigned, "0123456789") != "" {
		return 0, false, false
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	return n * factor, true, err == nil && n <= math.MaxInt64/factor && n >= math.MinInt64/factor
}

package store

import (
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ParseLimit reads a limit as people write it, such as "10/1m", "5/s" or "sliding-log:100/1h":
//
//	[ALGORITHM:]COUNT/PERIOD[,burst=N]
//	sliding-counter:COUNT/PERIOD[,slices=N]
//	fixed-window:COUNT/PERIOD,tz=ZONE          1d, 1w, 1mo, 3mo or 1y of a calendar
//	fixed-window:COUNT/PERIOD,from=first       a limit of others, which no store here decides
//
// [ParsePeriod] reads PERIOD, and [ParseNumber] the numbers. What is left out stays zero: [Limit.Normalize] fills it
// in, so a caller can put its own default first. Bounds are checked. The error is an [ErrInvalid] that quotes text.
func ParseLimit(text string) (Limit, error) { return ParseLimitAs(text, 0) }

// ParseLimitAs is [ParseLimit] where something else than text says the algorithm, such as a flag: a limit that names
// none is read as one of that algorithm, with the burst or the slices that it can have.
func ParseLimitAs(text string, algorithm Algorithm) (Limit, error) {
	limit, err := parseLimit(text, algorithm)
	if err == nil {
		_, err = limit.Normalize()
	}
	if err != nil {
		return Limit{}, Invalidf("limit %q: %s", text, err)
	}
	return limit, nil
}

func parseLimit(text string, algorithm Algorithm) (l Limit, err error) {
	l.Algorithm = algorithm
	rest := text
	if name, after, found := strings.Cut(rest, ":"); found {
		if l.Algorithm, err = ParseAlgorithm(name); err != nil {
			return l, err
		}
		rest = after
	}
	rest, options, hasOptions := strings.Cut(rest, ",")
	count, period, found := strings.Cut(rest, "/")
	number, unit, isSpoken := strings.Cut(rest, " per ")
	switch {
	case found:
	case isSpoken:
		return l, Invalidf("write it as %s/%s", number, unit)
	case strings.Contains(options, "/"):
		return l, Invalidf("write each limit on its own, and a count without commas, such as 1000/1h")
	default:
		return l, Invalidf("it has no period; write COUNT/PERIOD, such as 10/1m")
	}
	if l.Count, err = ParseNumber("count", count, 1, MaxCount); err != nil {
		return l, err
	}
	given := map[string]string{}
	for option := range strings.SplitSeq(options, ",") {
		name, value, _ := strings.Cut(option, "=")
		_, isGiven := given[name]
		switch {
		case !hasOptions:
		case isGiven:
			return l, Invalidf("%q gives %s twice; give it once", options, name)
		case name == "tz":
		case strings.Contains(option, "/"):
			return l, Invalidf("%q is another limit; give each limit on its own", option)
		case name == "burst":
			l.Burst, err = ParseNumber(name, value, 1, MaxCount)
		case name == "slices":
			l.Slices, err = ParseNumber(name, value, 1, MaxSlices)
		case option == fromFirst:
			l.FromFirst = true
		default:
			err = Invalidf("unknown option %q; there is burst=N, slices=N for a %s, tz=ZONE for a %s, and from=first "+
				"for limits of others",
				option, SlidingCounter, FixedWindow)
		}
		if err != nil {
			return l, err
		}
		given[name] = value
	}
	zone, inCalendar := given["tz"]
	switch _, isUnit := calendarUnits[period]; {
	case inCalendar && !isUnit:
		return l, Invalidf("%q is no window of a calendar; in a time zone there are 1d, 1w, 1mo, 3mo and 1y", period)
	case inCalendar:
		if l.Calendar, err = calendarIn(calendarUnits[period], zone); err == nil {
			_, _, l.Period = l.Calendar.steps()
		}
		return l, err
	}
	if l.Period, err = ParsePeriod(period); err != nil && calendarUnits[period] != "" {
		err = Invalidf("a window of %[1]s needs a time zone; write fixed-window:COUNT/%[1]s,tz=Europe/Berlin, or "+
			"tz=UTC", period)
	} else if err != nil && strings.ContainsAny(period, " ;") && strings.Contains(period, "/") {
		err = Invalidf("it is several limits; put a comma between them")
	}
	return l, err
}

// periodUnits are the units of a period that is one number, or none, and one of these.
var periodUnits = map[string]time.Duration{
	"ms": time.Millisecond,
	"s":  time.Second, "sec": time.Second, "second": time.Second, "seconds": time.Second,
	"m": time.Minute, "min": time.Minute, "minute": time.Minute, "minutes": time.Minute,
	"h": time.Hour, "hour": time.Hour, "hours": time.Hour,
	"d": aDay, "day": aDay, "days": aDay,
	"w": 7 * aDay, "week": 7 * aDay, "weeks": 7 * aDay,
}

// ParsePeriod reads a span of time: a Go duration ("1h30m"), a number of days before it ("1d12h"), or one of the units
// s, m, h, d, w and their words with or without a number ("5min", "hour").
func ParsePeriod(text string) (time.Duration, error) {
	word := strings.TrimLeft(text, "0123456789")
	if unit, is := periodUnits[word]; is {
		n, err := uint64(1), error(nil)
		if word != text {
			n, err = strconv.ParseUint(strings.TrimSuffix(text, word), 10, 64)
		}
		if err == nil && n <= uint64(math.MaxInt64/unit) {
			return time.Duration(n) * unit, nil
		}
	}
	days, rest := time.Duration(0), text
	if number, after, found := strings.Cut(text, "d"); found {
		if n, err := strconv.ParseUint(number, 10, 16); err == nil {
			days, rest = time.Duration(n)*aDay, after
		}
	}
	period, err := time.ParseDuration(rest)
	if err != nil || rest[0] == '-' || rest[0] == '+' || period > math.MaxInt64-days {
		return 0, Invalidf("period %q is not a duration from %s to %s; write it like 500ms, 10s, 1m, 2h or 1d",
			text, FormatPeriod(MinPeriod), FormatPeriod(MaxPeriod))
	}
	return days + period, nil
}

// ParseAlgorithm reads an algorithm's name; "gcra" is another name of token-bucket, which decides as it does.
func ParseAlgorithm(name string) (Algorithm, error) {
	if a := algorithmNamed(name); a != 0 {
		return a, nil
	}
	return 0, Invalidf("unknown algorithm %q; there are %s", name, strings.Join(AlgorithmNames(), ", "))
}

// algorithmNamed returns 0 for an unknown name.
func algorithmNamed(name string) Algorithm {
	for a := TokenBucket; a <= SlidingCounter; a++ {
		if definitions[a].name == name {
			return a
		}
	}
	if name == "gcra" {
		return TokenBucket
	}
	return 0
}

// ParseNumber reads a whole number as people write it: "200", "1_000", "1k" for a thousand, or "2M" for two million.
// The error is an [ErrInvalid] that begins with what.
func ParseNumber(what, text string, least, most int64) (int64, error) {
	n, is, fits := parseWhole(text)
	switch {
	case !is:
		return 0, Invalidf("%s %q is not a whole number, such as 200 or 2k", what, text)
	case !fits || n < least || n > most:
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
	digits, factor := strings.TrimRight(text, "kKM"), int64(1)
	switch text[len(digits):] {
	case "":
	case "k", "K":
		factor = 1000
	case "M":
		factor = 1_000_000
	default:
		return 0, false, false
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

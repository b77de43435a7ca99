package store

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/limitctl/limitctl/internal/texts"
)

// ParseLimit reads a limit as people write it:
//
//	[ALGORITHM:]COUNT/PERIOD[,burst=N]
//	sliding-counter:COUNT/PERIOD[,slices=N]
//	fixed-window:COUNT/PERIOD[,from=first]
//
// such as "10/1m", "5/s", "sliding-log:100/1h" or "1000/1m,burst=200". PERIOD is a Go
// duration, a number of days ("1d", "1d12h"), or a bare unit ("10/s"). What is left out
// stays zero: [Limit.Normalize] fills it in, so a caller can put its own default first.
// Slices need an algorithm in text; see [ParseLimitAs]. Bounds are checked. The error is an [ErrInvalid]
// that quotes text.
func ParseLimit(text string) (Limit, error) { return parseChecked(text, 0) }

// ParseLimitAs is [ParseLimit] where something else than text says the algorithm, such as
// a flag: a limit that names none is read as one of that algorithm, with the burst or the
// slices that it can have.
func ParseLimitAs(text string, algorithm Algorithm) (Limit, error) {
	return parseChecked(text, algorithm)
}

// parseChecked reads a limit that is of the algorithm unless it names another.
func parseChecked(text string, algorithm Algorithm) (Limit, error) {
	limit, err := parseLimit(text, algorithm)
	if err == nil {
		_, err = limit.Normalize()
	}
	if err != nil {
		return Limit{}, Invalidf("limit %q: %s", text, err)
	}
	return limit, nil
}

func parseLimit(text string, algorithm Algorithm) (limit Limit, err error) {
	limit.Algorithm = algorithm
	rest := text
	if name, after, found := strings.Cut(rest, ":"); found {
		if limit.Algorithm, err = ParseAlgorithm(name); err != nil {
			return Limit{}, err
		}
		rest = after
	}
	rest, options, hasOptions := strings.Cut(rest, ",")
	count, period, found := strings.Cut(rest, "/")
	if !found {
		return Limit{}, Invalidf("it has no period; write COUNT/PERIOD, such as 10/1m")
	}
	if limit.Count, err = parseUnits("count", count, MaxCount); err != nil {
		return Limit{}, err
	}
	if limit.Period, err = ParsePeriod(period); err != nil {
		return Limit{}, err
	}
	if hasOptions {
		err = limit.parseOption(options)
	}
	return limit, err
}

func (l *Limit) parseOption(text string) (err error) {
	if strings.Contains(text, ",") {
		return Invalidf("%q is several options; there can be one", text)
	}
	if value, is := strings.CutPrefix(text, "burst="); is {
		l.Burst, err = parseUnits("burst", value, MaxCount)
		return err
	}
	if value, is := strings.CutPrefix(text, "slices="); is {
		if l.Algorithm == 0 {
			return Invalidf("only a %[1]s limit has slices; write %[1]s: before the count", SlidingCounter)
		}
		l.Slices, err = parseUnits("slices", value, MaxSlices)
		return err
	}
	if strings.HasPrefix(text, "from=") {
		if l.FromFirst = ","+text == fromFirst; l.FromFirst {
			return nil
		}
		return Invalidf("%q is not where windows can begin; it is from=first, or leave it out for windows at whole periods", text)
	}
	return Invalidf("unknown option %q; there is burst=N, slices=N for a %s, and from=first for a %s", text, SlidingCounter, FixedWindow)
}

func parseUnits(what, text string, most int64) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || strings.HasPrefix(text, "+") {
		if isNumber(text) {
			return 0, Invalidf("%s %s is out of range; it must be from 1 to %d", what, text, most)
		}
		return 0, Invalidf("%s %q is not a whole number", what, text)
	}
	if n < 1 || n > most {
		return 0, Invalidf("%s %d is out of range; it must be from 1 to %d", what, n, most)
	}
	return n, nil
}

// isNumber distinguishes a number that is too large from a text that is not a number.
func isNumber(text string) bool {
	digits := strings.TrimPrefix(text, "-")
	return digits != "" && strings.Trim(digits, "0123456789") == ""
}

// ParsePeriod reads a span of time: a Go duration ("90s", "1h30m"), a number of
// days before it ("1d", "1d12h"), or a bare unit ("s", "m", "h", "d").
func ParsePeriod(text string) (time.Duration, error) {
	wrong := func() (time.Duration, error) {
		return 0, Invalidf("period %q is not a duration from %s to %s; write it like 500ms, 10s, 1m, 2h or 1d",
			text, FormatPeriod(MinPeriod), FormatPeriod(MaxPeriod))
	}
	rest := text
	switch rest {
	case "ms", "s", "m", "h", "d":
		rest = "1" + rest
	}
	var days time.Duration
	if number, after, found := strings.Cut(rest, "d"); found {
		n, err := strconv.ParseUint(number, 10, 16)
		if err != nil {
			return wrong()
		}
		days, rest = time.Duration(n)*24*time.Hour, after
		if rest == "" {
			return days, nil
		}
	}
	if !strings.HasPrefix(rest, "-") && !strings.HasPrefix(rest, "+") {
		if period, err := time.ParseDuration(rest); err == nil && period <= math.MaxInt64-days {
			return days + period, nil
		}
	}
	return wrong()
}

// ParseAlgorithm reads an algorithm's name; "gcra" is another name of
// token-bucket, which decides as it does. An unknown name's error suggests
// the nearest one.
func ParseAlgorithm(name string) (Algorithm, error) {
	if name == "gcra" {
		return TokenBucket, nil
	}
	names := AlgorithmNames()
	if i := slices.Index(names, name); i >= 0 {
		return Algorithms()[i], nil
	}
	if nearest := texts.Nearest(name, names, 6); nearest != "" {
		return 0, Invalidf("unknown algorithm %q; did you mean %s?", name, nearest)
	}
	return 0, Invalidf("unknown algorithm %q; there are %s", name, strings.Join(names, ", "))
}

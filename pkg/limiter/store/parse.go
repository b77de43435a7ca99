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
//	fixed-window:COUNT/PERIOD,tz=ZONE          1d, 1w, 1mo, 3mo or 1y of a calendar
//
// and limits of others, which no store here decides:
//
//	fixed-window:COUNT/PERIOD,from=first
//
// such as "10/1m", "5/s", "sliding-log:100/1h" or "1000/1m,burst=200". PERIOD is a Go
// duration, a number of days ("1d", "1d12h"), or a bare unit or word ("10/s", "10/min"); see
// [ParsePeriod]. Counts are read by [ParseNumber] ("1k", "2M", "1_000"). What is left out
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
	switch {
	case text == "":
		return Limit{}, Invalidf("it is empty; write COUNT/PERIOD, such as 10/1m")
	case !found:
		return Limit{}, Invalidf("it has no period; write COUNT/PERIOD, such as 10/1m")
	}
	if limit.Count, err = ParseNumber("count", count, 1, MaxCount); err != nil {
		return Limit{}, err
	}
	if is, err := limit.setCalendar(period, options); err != nil {
		return Limit{}, err
	} else if !is {
		if limit.Period, err = ParsePeriod(period); err != nil {
			if needs := needsZone(period); needs != nil {
				err = Invalidf("%s", needs)
			} else if strings.ContainsAny(period, " ;") && strings.Contains(period, "/") {
				err = Invalidf("it is several limits; put a comma between them")
			}
			return Limit{}, err
		}
	}
	if !hasOptions {
		return limit, nil
	}
	given := map[string]bool{}
	for option := range strings.SplitSeq(options, ",") {
		name, _, _ := strings.Cut(option, "=")
		if given[name] {
			return limit, Invalidf("%q gives %s twice; give it once", options, name)
		}
		given[name] = true
		if err = limit.parseOption(option); err != nil {
			return limit, err
		}
	}
	return limit, nil
}

func (l *Limit) parseOption(text string) (err error) {
	if strings.HasPrefix(text, zoneOption) {
		return nil // parsed with the period
	}
	if strings.Contains(text, "/") {
		return Invalidf("%q is another limit; give each limit on its own", text)
	}
	if value, is := strings.CutPrefix(text, "burst="); is {
		l.Burst, err = ParseNumber("burst", value, 1, MaxCount)
		return err
	}
	if value, is := strings.CutPrefix(text, "slices="); is {
		if l.Algorithm == 0 {
			return Invalidf("only a %[1]s limit has slices; write %[1]s: before the count", SlidingCounter)
		}
		l.Slices, err = ParseNumber("slices", value, 1, MaxSlices)
		return err
	}
	switch {
	case l.Calendar != nil && text == fromFirst:
		return Invalidf("windows of a calendar do not begin with a request; leave from=first or tz= out")
	case text == fromFirst:
		l.FromFirst = true
	case strings.HasPrefix(text, untilOption):
		return Invalidf("%q is how the window of a record is shown; write the window and its zone, such as 1mo,tz=Europe/Berlin", text)
	case strings.HasPrefix(text, "from="):
		return Invalidf("%q is not where windows can begin; it is from=first, or leave it out for windows at whole periods", text)
	default:
		return Invalidf("unknown option %q; there is burst=N, slices=N for a %s, tz=ZONE for a %s, and from=first for limits of others",
			text, SlidingCounter, FixedWindow)
	}
	return nil
}

// wordedPeriod reads a period whose unit is a word that no Go duration has, such as "min" or "5min".
func wordedPeriod(text string) (n uint64, unit time.Duration, is bool) {
	word := strings.TrimLeft(text, "0123456789")
	switch word {
	case "sec", "second", "seconds":
		unit = time.Second
	case "min", "minute", "minutes":
		unit = time.Minute
	case "hour", "hours":
		unit = time.Hour
	case "day", "days":
		unit = 24 * time.Hour
	case "w", "week", "weeks":
		unit = 7 * 24 * time.Hour
	default:
		return 0, 0, false
	}
	if word == text {
		return 1, unit, true
	}
	n, err := strconv.ParseUint(strings.TrimSuffix(text, word), 10, 64)
	return n, unit, err == nil
}

// ParsePeriod reads a span of time: a Go duration ("90s", "1h30m"), a number of
// days before it ("1d", "1d12h"), a bare unit ("s", "m", "h", "d"), or one of the words
// second, minute, hour, day and week with or without a number ("5min", "hour", "1w").
func ParsePeriod(text string) (time.Duration, error) {
	wrong := func() (time.Duration, error) {
		return 0, Invalidf("period %q is not a duration from %s to %s; write it like 500ms, 10s, 1m, 2h or 1d",
			text, FormatPeriod(MinPeriod), FormatPeriod(MaxPeriod))
	}
	rest := text
	if n, unit, is := wordedPeriod(text); is {
		if n > uint64(math.MaxInt64/unit) {
			return wrong()
		}
		return time.Duration(n) * unit, nil
	}
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

package store_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// checkOneLine fails unless err is an ErrInvalid that a terminal shows in one line, and that holds all of parts.
func checkOneLine(t interface{ Fatalf(string, ...any) }, err error, parts ...string) {
	if !errors.Is(err, store.ErrInvalid) {
		t.Fatalf("no ErrInvalid: %v", err)
	}
	if strings.ContainsFunc(err.Error(), unicode.IsControl) {
		t.Fatalf("control characters in %q", err)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Fatalf("no %s in: %v", part, err)
		}
	}
}

func TestParseLimit(t *testing.T) {
	const day = 24 * time.Hour
	for _, test := range []struct {
		text string
		want store.Limit
	}{
		{"5/ms", store.Limit{Count: 5, Period: time.Millisecond}},
		{"1000/1d12h", store.Limit{Count: 1000, Period: 36 * time.Hour}},
		{"1000/1m,burst=200", store.Limit{Count: 1000, Period: time.Minute, Burst: 200}},
		{"sliding-counter:1000000000/366d", store.Limit{Algorithm: store.SlidingCounter, Count: 1_000_000_000,
			Period: 366 * day}},
		{"sliding-counter:100/1h,slices=60", store.Limit{Algorithm: store.SlidingCounter, Count: 100, Period: time.Hour,
			Slices: 60}},
		{"sliding-counter:1/3.6ms,slices=3600",
			store.Limit{Algorithm: store.SlidingCounter, Count: 1, Period: 3600 * time.Microsecond, Slices: 3600}},
		{"3/2hours", store.Limit{Count: 3, Period: 2 * time.Hour}},
		{"3/week", store.Limit{Count: 3, Period: 7 * day}},
		{"1K/1m", store.Limit{Count: 1000, Period: time.Minute}},
		{"2M/1m,burst=10k", store.Limit{Count: 2_000_000, Period: time.Minute, Burst: 10_000}},
		{"1_000/1m", store.Limit{Count: 1000, Period: time.Minute}},
		{"1/1ms", store.Limit{Count: 1, Period: time.Millisecond}},
	} {
		got, err := store.ParseLimit(test.text)
		if err != nil || got != test.want {
			t.Errorf("%s is read as %+v, %v; not as %+v", test.text, got, err, test.want)
		}
	}
}

// Every wrong limit is told apart: what was written, which part of it is wrong, and what would be right.
func TestParseLimitErrors(t *testing.T) {
	const (
		count    = "; it must be from 1 to 1000000000"
		period   = "; it must be from 1ms to 366d"
		duration = " is not a duration from 1ms to 366d; write it like 500ms, 10s, 1m, 2h or 1d"
		options  = "there is burst=N, slices=N for a sliding-counter, tz=ZONE for a fixed-window, " +
			"and from=first for limits of others"
		calendarWindows = " is no window of a calendar; in a time zone there are 1d, 1w, 1mo, 3mo and 1y"
		zones           = "; write a name of the IANA database, such as tz=Europe/Berlin or tz=UTC"
		noPeriod        = "it has no period; write COUNT/PERIOD, such as 10/1m"
		all             = "; there are token-bucket, leaky-bucket, fixed-window, sliding-log, sliding-counter"
	)
	needsZone := func(period string) string {
		return " needs a time zone; write fixed-window:COUNT/" + period + ",tz=Europe/Berlin, or tz=UTC"
	}
	for _, test := range []struct{ text, want string }{
		{"", noPeriod},
		{"10", noPeriod},
		{"7rps", noPeriod},
		{"10 per minute", "write it as 10/minute"},
		{"1,000/1h", "write each limit on its own, and a count without commas, such as 1000/1h"},
		{"5,10/1m", "write each limit on its own, and a count without commas, such as 1000/1h"},
		{"10,burst=5", noPeriod},
		{"1_00/1m", `count "1_00" is not a whole number, such as 200 or 2k`},
		{"10/1h,100/1d", `"100/1d" is another limit; give each limit on its own`},
		{"0/1m", "count 0 is out of range" + count},
		{"1000000001/1m", "count 1000000001 is out of range" + count},
		{"sliding-log:1000001/1m", "count 1000001 of a sliding-log limit is out of range; it must be from 1 to " +
			"1000000"},
		{"10/1y", "a window of 1y" + needsZone("1y")},
		{"fixed-window:10/2mo,tz=UTC", `"2mo"` + calendarWindows},
		{"10/1mo,tz=UTC", "a token-bucket limit has no windows of a calendar; leave tz=UTC out, or choose " +
			"fixed-window"},
		{"fixed-window:10/1mo,tz=Europe/Berlinn", `unknown time zone "Europe/Berlinn"` + zones},
		{"fixed-window:10/1mo,tz=../UTC", `unknown time zone "../UTC"` + zones},
		{"fixed-window:10/1mo,tz=UTC\n", `unknown time zone "UTC\n"` + zones},
		{"fixed-window:10/1mo,tz=UTC,tz=UTC", `"tz=UTC,tz=UTC" gives tz twice; give it once`},
		{"fixed-window:10/1mo,tz=UTC,burst=20",
			"a fixed-window limit has no burst; leave it out, its count of 10 is allowed at once"},
		{"fixed-window:10/1mo,tz=UTC,from=first",
			"a fixed-window limit has no windows that begin with a request; from=first is for a fixed-window without tz"},
		{"10/-1m", `period "-1m"` + duration},
		{"10/9999999d\nx", `period "9999999d\nx"` + duration},
		{"10/999us", "period 999µs is out of range" + period},
		{"10/1.0000001s", "period 1.0000001s is not a whole number of microseconds"},
		{"10/1m,brst=5", `unknown option "brst=5"; ` + options},
		{"10/1m,burst=5,burst=6", `"burst=5,burst=6" gives burst twice; give it once`},
		{"token-bucket:2/1m,from=first", "a token-bucket limit has no windows that begin with a request; " +
			"from=first is for a fixed-window without tz"},
		{"fixed-window:2/1m,from=second", `unknown option "from=second"; ` + options},
		{"10/1m,burst=0", "burst 0 is out of range" + count},
		{"1/366d,burst=101", "a burst of 101 at 1/366d takes more than 36600d to drain; lower the burst or raise the " +
			"count"},
		{"sliding-counter:10/1m,slices=3601", "slices 3601 is out of range; it must be from 1 to 3600"},
		{"sliding-counter:10/1h,slices=7", "a period of 1h cannot be cut into 7 slices of whole microseconds"},
		{"sliding-counter:10/1m,slices=6,burst=11",
			"a sliding-counter limit has no burst; leave it out, its count of 10 is allowed at once"},
		{"10/1m,slices=6", "a token-bucket limit has no slices; leave slices=6 out, or choose sliding-counter"},
		{"tokn-bucket:10/1m", `unknown algorithm "tokn-bucket"` + all},
		{"\x1b[31m:10/1m", `unknown algorithm "\x1b[31m"` + all},
	} {
		got, err := store.ParseLimit(test.text)
		if err == nil {
			t.Errorf("%q is read as %+v", test.text, got)
			continue
		}
		checkOneLine(t, err)
		if want := fmt.Sprintf("limit %q: %s", test.text, test.want); err.Error() != want {
			t.Errorf("%q: the error is\n  %s\nnot\n  %s", test.text, err, want)
		}
		if got != (store.Limit{}) {
			t.Errorf("%q: %+v comes with an error", test.text, got)
		}
	}
}

func checkParseLimit(t interface{ Fatalf(string, ...any) }, text string) {
	limit, err := store.ParseLimit(text)
	if err != nil {
		checkOneLine(t, err, strconv.Quote(text))
		return
	}
	if said := strings.Contains(text, ":"); said == (limit.Algorithm == 0) {
		t.Fatalf("%q is read as %+v", text, limit)
	}
	if said := strings.Contains(text, ","); said == (limit.Burst == 0 && limit.Slices == 0 && limit.Calendar == nil) {
		t.Fatalf("%q is read as %+v", text, limit)
	}
	normal, err := limit.Normalize()
	if err != nil {
		t.Fatalf("%q is read as %+v: %v", text, limit, err)
	}
	for _, written := range []string{limit.String(), normal.String()} {
		again, err := store.ParseLimit(written)
		if err == nil {
			again, err = again.Normalize()
		}
		if err != nil || again != normal {
			t.Fatalf("%q is read as %+v and written %q, which is read as %+v, %v", text, normal, written, again, err)
		}
		if again.String() != written {
			t.Fatalf("%q is written %q the second time", written, again.String())
		}
	}
}

func FuzzParseLimit(f *testing.F) {
	for _, seed := range []string{
		"", "10/1m", "5/s", "sliding-log:100/1h", "gcra:1000/1m,burst=200", "fixed-window:10/1d12h,burst=10",
		"leaky-bucket:1/366d,burst=100", "0/1m", "10/0s", "10/1y", "-1/1m", "99999999999999999999/1m", "10/9999999d",
		"10/9999999d\n", "tokn-bucket:10/1m", "10/1m,burst=0", "fixed-window:10/1m,burst=20", "10/1.0000001s",
		"10/1h0m0.5s",
		"fixed-window:10/3mo,tz=Europe/Berlin",
		"sliding-counter:100/1h,slices=60", "sliding-counter:100/1h,slices=7", "10/1m,slices=6",
		"sliding-counter:10/1m,slices=1,burst=1",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) { checkParseLimit(t, text) })
}

func TestParsePeriod(t *testing.T) {
	const day = 24 * time.Hour
	for _, test := range []struct {
		text      string
		want      time.Duration
		formatted string
	}{
		{"s", time.Second, "1s"},
		{"d", day, "1d"},
		{"0s", 0, "0s"},
		{"1.5s", 1500 * time.Millisecond, "1.5s"},
		{"90s", 90 * time.Second, "1m30s"},
		{"1h30m", 90 * time.Minute, "1h30m"},
		{"1h30s", time.Hour + 30*time.Second, "1h0m30s"},
		{"1d", day, "1d"},
		{"1d12h", 36 * time.Hour, "36h"},
		{"1d1ms", day + time.Millisecond, "24h0m0.001s"},
		{"1w", 7 * day, "7d"},
		{"65535d", 65535 * day, "65535d"},
	} {
		got, err := store.ParsePeriod(test.text)
		if err != nil || got != test.want {
			t.Errorf("%s is read as %s, %v; not as %s", test.text, got, err, test.want)
		}
		if formatted := store.FormatPeriod(test.want); formatted != test.formatted {
			t.Errorf("%s is written %s, not %s", test.want, formatted, test.formatted)
		}
	}
}

package store_test

import (
	"errors"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

func TestParseShare(t *testing.T) {
	for text, want := range map[string]store.Share{
		"25%": store.DefaultShare, "0.25": store.DefaultShare, "20%": 200_000, "0.2": 200_000, "0.20": 200_000,
		"12.5%": 125_000, "100%": store.WholeShare, "1": store.WholeShare, "1.0": store.WholeShare,
		"0.0001%": 1, "0.000001": 1, "0.00010000%": 1, "33.3333%": 333_333, "99.9999%": 999_999, "007%": 70_000,
	} {
		got, err := store.ParseShare(text)
		if err != nil || got != want {
			t.Errorf("%q is read as %d, %v; want %d", text, got, err, want)
		}
		if again, err := store.ParseShare(got.String()); again != got || err != nil {
			t.Errorf("%q is written as %q, which is read as %d, %v", text, got, again, err)
		}
	}
	for share, want := range map[store.Share]string{
		1: "0.0001%", 125_000: "12.5%", store.DefaultShare: "25%", 200_000: "20%", store.WholeShare: "100%",
		333_333: "33.3333%",
	} {
		if share.String() != want {
			t.Errorf("%d is written as %s, not %s", share, share, want)
		}
	}
	const wrong = ` is not a part of a limit; write it like 20% or 0.2, ` +
		`more than 0 and at most 100%, with at most four decimals of a percent`
	for text, want := range map[string]string{
		"%":        `share "%"` + wrong,
		"101%":     `share "101%"` + wrong,
		".2":       `share ".2"` + wrong,
		"0.00001%": `share "0.00001%"` + wrong,
	} {
		got, err := store.ParseShare(text)
		if got != 0 || !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%q is read as %d, %v", text, got, err)
			continue
		}
		checkOneLine(t, err, want)
	}
}

// A share is of count and burst, rounded down, at least 1, and always a valid limit.
func TestAShareOfALimit(t *testing.T) {
	for _, test := range []struct{ limit, share, want string }{
		{"100/1m", "25%", "token-bucket:25/1m"},
		{"10/1m", "25%", "token-bucket:2/1m"},
		{"10/1m,burst=99", "25%", "token-bucket:2/1m,burst=24"},
		{"3/1m", "25%", "token-bucket:1/1m"},
		{"1/1m,burst=20", "10%", "token-bucket:1/1m,burst=2"},
		{"100/1m,burst=1", "50%", "token-bucket:50/1m,burst=1"},
		{"leaky-bucket:10/1s,burst=7", "50%", "leaky-bucket:5/1s,burst=3"},
		{"fixed-window:9/1h", "50%", "fixed-window:4/1h"},
		{"sliding-log:1000000/1h", "0.0001%", "sliding-log:1/1h"},
		{"sliding-counter:120/1h,slices=60", "12.5%", "sliding-counter:15/1h,slices=60"},
		{"1000000000/366d", "33.3333%", "token-bucket:333333000/366d"},
		{"10/1m,burst=20", "100%", "token-bucket:10/1m,burst=20"},
		// Seven a year and a burst of 693 drain in 99 years. One a year would be too slow for a quarter of that.
		{"7/366d,burst=693", "25%", "token-bucket:1/366d,burst=100"},
	} {
		limit, err := store.ParseLimit(test.limit)
		must(t, err)
		share, err := store.ParseShare(test.share)
		must(t, err)
		for _, whole := range []store.Limit{limit, normal(t, limit)} {
			if got := share.Of(whole); got.String() != test.want {
				t.Errorf("%s of %s is %s, not %s", test.share, test.limit, got, test.want)
			} else if _, err := got.Normalize(); err != nil {
				t.Errorf("%s of %s: %v", test.share, test.limit, err)
			}
		}
	}
	if got := store.DefaultShare.Of(store.Limit{Count: 8, Period: time.Second}); got.Burst != 0 {
		t.Errorf("a burst that is not said becomes %d", got.Burst)
	}
}

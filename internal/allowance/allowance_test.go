package allowance

import (
	"math"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

func TestCompare(t *testing.T) {
	limit := func(count int64, period time.Duration, burst int64) store.Limit {
		return store.Limit{Algorithm: store.TokenBucket, Count: count, Period: period, Burst: burst}
	}
	for name, test := range map[string]struct {
		before, after    store.Limit
		overTime, atOnce int
	}{
		"the same":                   {limit(10, time.Minute, 10), limit(10, time.Minute, 10), 0, 0},
		"the same rate, more burst":  {limit(10, time.Second, 10), limit(600, time.Minute, 600), 0, 1},
		"less over time, as much":    {limit(10, time.Second, 10), limit(10, time.Minute, 10), -1, 0},
		"more over time, less burst": {limit(10, time.Minute, 20), limit(11, time.Minute, 11), 1, -1},
		"apart by less than a float can tell": {limit(store.MaxCount-1, math.MaxInt64-1, 5),
			limit(store.MaxCount-1, math.MaxInt64, 5), -1, 0},
	} {
		overTime, atOnce := Compare(test.before, test.after)
		if overTime != test.overTime || atOnce != test.atOnce {
			t.Errorf("%s: %d over time and %d at once, want %d and %d", name, overTime, atOnce, test.overTime,
				test.atOnce)
		}
		if back, backAtOnce := Compare(test.after, test.before); back != -overTime || backAtOnce != -atOnce {
			t.Errorf("%s, the other way round: %d and %d", name, back, backAtOnce)
		}
	}
}

// A key under two blocks is denied until the last one ends.
func TestABlockLastsUntilTheLastOneEnds(t *testing.T) {
	now := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	block := func(id, subject string, lasts time.Duration) store.Override {
		pattern, err := store.ParsePattern(subject)
		if err != nil {
			t.Fatal(err)
		}
		return store.Override{ID: id, Subjects: pattern, Effect: store.OverrideBlock, CreatedAt: now,
			ExpiresAt: now.Add(lasts),
			Left:      lasts}
	}
	list := store.NewOverrideList([]store.Override{
		block("a", "ip:203.0.113.9", time.Minute), block("b", "ip:203.0.113.0/24", time.Hour)})
	e := admin.Entry{Key: store.Key{Subject: "ip:203.0.113.9", Name: "n"}}
	e.Allowed, e.Remaining = true, 3
	o := list.For(e.Key)
	if o.ID != "a" {
		t.Fatalf("%s applies", o.ID)
	}
	Block(&e, list, o, o.Left)
	if e.Allowed || e.Remaining != 0 || e.RetryAfter != time.Hour {
		t.Errorf("%v, %d remaining, retry in %s, want denied for an hour", e.Allowed, e.Remaining, e.RetryAfter)
	}
	others := admin.Entry{Key: e.Key, Layout: "ulule"}
	if Block(&others, list, o, o.Left); others.RetryAfter != 0 {
		t.Errorf("a key of another limiter waits %s", others.RetryAfter)
	}
}

func TestEffect(t *testing.T) {
	for want, o := range map[string]store.Override{
		"token-bucket:600/1m": {Effect: store.OverrideLimit,
			Limit: store.Limit{Algorithm: store.TokenBucket, Count: 600, Period: time.Minute}},
		"×3":     {Effect: store.OverrideTimes, Thousandths: 3000},
		"×0.001": {Effect: store.OverrideTimes, Thousandths: 1},
		"+5000":  {Effect: store.OverrideAdd, Units: 5000},
		"-1":     {Effect: store.OverrideAdd, Units: -1},
		"block":  {Effect: store.OverrideBlock},
		"exempt": {Effect: store.OverrideExempt},
	} {
		if got := Effect(&o); got != want {
			t.Errorf("%+v is %q, want %q", o, got, want)
		}
	}
}

package live

import (
	"testing"
	"time"
	_ "time/tzdata"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

func usedOfOther(used int64) admin.Entry {
	e := admin.Entry{Key: store.Key{Subject: "a", Name: "x/minute"}, Layout: "x", StoreKey: "k", TTL: time.Minute,
		Limit: store.Limit{Algorithm: store.FixedWindow, Count: 10, Period: time.Minute, Burst: 10}}
	e.Used, e.Remaining, e.Allowed, e.ResetAfter = used, max(0, 10-used), used < 10, 30*time.Second
	return e
}

// Units a second are as exact as each algorithm allows.
func TestUnitsThatWereTakenOfOthers(t *testing.T) {
	at := store.Instant(1_800_000_000_000_000)
	look := func(algorithm store.Algorithm, after time.Duration, used int64, resets time.Duration) *seen {
		e := usedOfOther(used)
		e.Limit.Algorithm, e.At, e.ResetAfter = algorithm, at+store.Instant(after/time.Microsecond), resets
		s := newSeen(&e)
		return &s
	}
	forEver := func(after time.Duration, used int64) *seen {
		e := usedOfOther(used)
		e.Limit.FromFirst, e.TTL, e.At, e.ResetAfter = true, -1, at+store.Instant(after/time.Microsecond), time.Hour
		s := newSeen(&e)
		return &s
	}
	for name, test := range map[string]struct {
		before, now *seen
		want        int64
	}{
		"a window for ever": {forEver(0, 5), forEver(time.Minute, 7), 2},
		"a window":          {look(store.FixedWindow, 0, 3, 30*time.Second), look(store.FixedWindow, time.Second, 8, 29*time.Second), 5},
		"the next window":   {look(store.FixedWindow, 0, 3, time.Second), look(store.FixedWindow, 2*time.Second, 8, 59*time.Second), 8},
		"a window of less":  {look(store.FixedWindow, 0, 9, 30*time.Second), look(store.FixedWindow, time.Second, 2, 29*time.Second), 2},
		"a bucket": {look(store.TokenBucket, 0, 5, 30*time.Second), look(store.TokenBucket, 6*time.Second, 7, 42*time.Second),
			3},
		"a bucket at rest": {look(store.TokenBucket, 0, 5, 30*time.Second), look(store.TokenBucket, 6*time.Second, 4, 24*time.Second),
			0},
		"a bucket, full anew": {look(store.TokenBucket, 0, 1, 6*time.Second), look(store.TokenBucket, time.Minute, 2, 12*time.Second), 2},
		"one that was unused": {&seen{}, look(store.TokenBucket, 0, 2, 12*time.Second), 2},
		"a sliding window": {look(store.SlidingCounter, 0, 6, time.Minute), look(store.SlidingCounter, 10*time.Second, 7, time.Minute),
			2},
	} {
		if got := test.before.taken(test.now); got != test.want {
			t.Errorf("%s: %d, want %d", name, got, test.want)
		}
	}
}

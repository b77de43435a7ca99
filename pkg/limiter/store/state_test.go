package store_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// someStates calls f with states of all kinds and some instant after their last charge.
func someStates(t *testing.T, f func(s *store.State, limit store.Limit, now store.Instant)) {
	t.Helper()
	random := rand.New(rand.NewPCG(7, 11))
	for _, kind := range store.Kinds() {
		for range 60 {
			limit := store.Limit{Algorithm: kind.Algorithm(), Count: 1 + random.Int64N(20), Period: 7 * time.Millisecond}
			if kind.HasSlices() {
				limit.Slices = 1 + random.Int64N(2)*6
			}
			if limit.Algorithm.HasBurst() {
				limit.Burst = 1 + random.Int64N(20)
			}
			if kind.InCalendar() {
				limit, _ = store.ParseLimit(fmt.Sprintf("fixed-window:%d/1d,tz=Asia/Tokyo", limit.Count))
			}
			limit = normal(t, limit)
			s, now := new(store.State), store.Instant(1e15)
			for range 1 + random.IntN(12) {
				now += store.Instant(random.Int64N(3000))
				take(s, limit, 1+random.Int64N(min(3, limit.Capacity())), now)
			}
			f(s, limit, now+store.Instant(random.Int64N(3000)))
		}
	}
}

// Used falls to so many units at the instant that is told, and a microsecond before it is more.
func TestUsedFallsAtTheInstantThatIsTold(t *testing.T) {
	someStates(t, func(s *store.State, limit store.Limit, now store.Instant) {
		for room := range s.Used(now) + 2 {
			at := s.UsedAtMost(room, now)
			if at < now || s.Used(at) > room || at > now && s.Used(at-1) <= room {
				t.Fatalf("%s: %d in use at %d; at most %d at %d, it says, where it is %d, and %d just before", limit,
					s.Used(now), now, room, at, s.Used(at), s.Used(at-1))
			}
		}
	})
}

// An adjustment leaves just as many units in use as it says, whatever fades then.
func TestAdjustLeavesWhatItSays(t *testing.T) {
	someStates(t, func(s *store.State, limit store.Limit, now store.Instant) {
		for used := range limit.Capacity() + 1 {
			adjusted := s.Clone()
			before := adjusted.Used(now)
			if changed := adjusted.Adjust(limit, used, now); adjusted.Used(now) != used || changed != (before != used) {
				t.Fatalf("%s: %d in use after an adjustment of %d to %d, changed: %v", limit, adjusted.Used(now), before, used, changed)
			}
		}
	})
}

// A refund of more than there is leaves the unused state. It is a moment of the state like a charge: no clock
// goes back behind it.
func TestARefundIsOfItsInstant(t *testing.T) {
	someStates(t, func(s *store.State, limit store.Limit, now store.Instant) {
		used := s.Used(now)
		all := s.Clone()
		if all.Refund(store.MaxCount, now); !all.IsZero() {
			t.Fatalf("%s: after a refund of all there is %+v", limit, all)
		}
		for units := int64(1); units <= used; units++ {
			refunded := s.Clone()
			refunded.Refund(units, now)
			left := refunded.Used(now)
			if left > used {
				t.Fatalf("%s: %d in use after a refund of %d of %d", limit, left, units, used)
			}
			if left > 0 && (refunded.Time != now || refunded.Used(now-2000) != left) {
				t.Fatalf("%s: a refund at %d counts from %d", limit, now, refunded.Time)
			}
		}
	})
}

// When a clock went back, durations count from what it shows, as At does.
func TestDurationsOfAClockThatWentBack(t *testing.T) {
	for _, kind := range store.Kinds() {
		limit := store.Limit{Algorithm: kind.Algorithm(), Count: 10, Period: time.Minute}
		if kind.HasSlices() {
			limit.Slices = 6
		}
		limit = normal(t, limit)
		const later, earlier = store.Instant(1e15 + 5e6), store.Instant(1e15)
		s := new(store.State)
		take(s, limit, 5, later)
		beside := s.Clone()
		then, now := act(store.Take, beside, limit, 1, later), act(store.Take, s, limit, 1, earlier)
		if now.At != earlier || now.Used != 6 || now.ResetAfter != then.ResetAfter+5*time.Second {
			t.Errorf("%s: %+v, and at the later instant %+v", limit, now, then)
		}
	}
}

// A record holds as much as can be in use, in this window and the one before.
func TestARecordOfTheMost(t *testing.T) {
	const period = 60_000_000
	for _, algorithm := range []store.Algorithm{store.FixedWindow, store.SlidingCounter} {
		limit := normal(t, store.Limit{Algorithm: algorithm, Count: store.MaxCount, Period: time.Minute})
		var s store.State
		s.Charge(limit, store.MaxCount, 10*period)
		s.Charge(limit, store.MaxCount, 11*period)
		if got := decode(t, s.AppendRecord(nil)); *got != s {
			t.Errorf("%+v comes back as %+v", s, got)
		}
		s.Units++
		if err := new(store.State).DecodeRecord(s.AppendRecord(nil)); err == nil {
			t.Errorf("%+v comes back", s)
		}
	}
}

// The turn of a leaky bucket comes when all that is queued has left at the rate of the limit that takes over,
// and not a microsecond before.
func TestTheTurnOfALeakyBucket(t *testing.T) {
	old := normal(t, store.Limit{Algorithm: store.LeakyBucket, Count: 3, Period: time.Second, Burst: 10})
	var s store.State
	take(&s, old, 2, 1e15)
	for _, test := range []struct {
		limit store.Limit
		after store.Instant
		want  time.Duration
	}{
		{old, 0, 666_667 * time.Microsecond}, // 2 at 3 a second
		{old, 1, 666_666 * time.Microsecond},
		{old, 400_000, 266_667 * time.Microsecond},
		{old, 666_666, time.Microsecond}, {old, 666_667, 0},
		{store.Limit{Count: 7, Period: time.Second}, 0, 285_715 * time.Microsecond},       // 2 at 7 a second
		{store.Limit{Count: 7, Period: time.Second}, 400_000, 114_286 * time.Microsecond}, // 0.8 at 7 a second
		{store.Limit{Count: 3, Period: time.Minute}, 400_000, 20 * time.Second},           // 1 whole, at 3 a minute
	} {
		limit := test.limit
		limit.Algorithm = store.LeakyBucket
		limit = normal(t, limit)
		if delay := s.Delay(&limit, 1e15+test.after); delay != test.want {
			t.Errorf("under %s, %d µs later: the turn comes after %s, want %s", limit, test.after, delay, test.want)
		}
	}
}

// What was used under a limit counts under another that takes its place, whatever differs.
func TestALimitThatChangesKeepsTheUsage(t *testing.T) {
	const now = store.Instant(1e15 + 1)
	var limits []store.Limit
	for i, kind := range store.Kinds() {
		for _, times := range []time.Duration{1, 7} {
			limit := store.Limit{Algorithm: kind.Algorithm(), Count: 10, Period: times * time.Duration(i+1) * time.Minute}
			if kind.HasSlices() {
				limit.Slices = 10
			}
			limits = append(limits, normal(t, limit))
		}
	}
	for _, before := range limits {
		for _, after := range limits {
			var s store.State
			s.Charge(before, 3, now)
			if s.Charge(after, 2, now); s.Used(now) != 5 || s.Limit != after || s.Time != now {
				t.Errorf("from %s to %s: %d are in use, by %s", before, after, s.Used(now), s.Limit)
			}
		}
	}
}

// A window has its first microsecond, and not that of the next one.
func TestWindowsBeginByTheClock(t *testing.T) {
	const period, start = store.Instant(60_000_000), store.Instant(1_800_000_000_000_000) // a whole minute
	fixed := store.Limit{Algorithm: store.FixedWindow, Count: 10, Period: time.Minute, Burst: 10}
	sliding := store.Limit{Algorithm: store.SlidingCounter, Count: 10, Period: time.Minute, Burst: 10}
	for _, test := range []struct {
		limit           store.Limit
		charged, looked store.Instant
		want            int64
	}{
		{fixed, start, start, 7}, {fixed, start, start + period - 1, 7}, {fixed, start, start + period, 0},
		{fixed, start + period - 1, start + period - 1, 7}, {fixed, start + period - 1, start + period, 0},
		{sliding, start, start + period - 1, 7}, {sliding, start, start + period, 7},
		{sliding, start, start + period + period/7, 7}, {sliding, start, start + period + period/7 + 1, 6}, // 6 in 7 are in view
		{sliding, start, start + 2*period - 1, 1}, {sliding, start, start + 2*period, 0},
		{sliding, start + period - 1, start + 2*period - 1, 1}, {sliding, start + period - 1, start + 2*period, 0},
	} {
		var s store.State
		s.Charge(test.limit, 7, test.charged)
		if got := s.Used(test.looked); got != test.want {
			t.Errorf("%s: charged at %d, %d are in use at %d, not %d", test.limit, test.charged-start, got, test.looked-start, test.want)
		}
	}
}

// A token is remembered for its time, and not a microsecond longer.
func TestATokenEndsWithItsTime(t *testing.T) {
	const now, lasts = store.Instant(1_800_000_000_000_001), store.Instant(60_000_000)
	limit := store.Limit{Algorithm: store.FixedWindow, Count: 100, Period: 24 * time.Hour}
	reqs := []store.Request{{Key: store.Key{Subject: "s"}, Limit: limit, Cost: 3, Token: "t", TokenTTL: time.Minute}}
	if err := reqs[0].Normalize(store.Take); err != nil {
		t.Fatal(err)
	}
	var state store.State
	var token store.TokenRecord
	for _, test := range []struct {
		at       store.Instant
		repeated bool
		used     int64
		expires  store.Instant
	}{
		{now, false, 3, now + lasts}, {now + lasts - 1, true, 3, now + lasts}, {now + lasts, false, 6, now + 2*lasts},
	} {
		var decisions [1]store.Decision
		changes, err := store.Decide(store.Take, reqs, []*store.State{&state}, decisions[:], &token, test.at)
		d := &decisions[0]
		if err != nil || d.Repeated != test.repeated || d.Granted != 3 || d.Used != test.used || token.Expires != test.expires ||
			changes != (store.Changes{States: !test.repeated, Token: !test.repeated}) {
			t.Errorf("after %d µs: %+v, %+v, %v; it is remembered until %d", test.at-now, d, changes, err, token.Expires-now)
		}
	}
}

package loadgen

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
)

// secondsOf returns the seconds of a run in virtual time, and its result.
func secondsOf(t *testing.T, config Config) (all []Second, r *Result) {
	t.Helper()
	config.EachSecond = func(s *Second) { all = append(all, *s) }
	r = virtual(t, config)
	var sum Second
	end := int64(0)
	for i, s := range all {
		if s.OffsetMS != end || s.At != r.StartedAt.Add(time.Duration(end)*time.Millisecond) || s.DurationMS < 0 || s.DurationMS > 1000 ||
			s.DurationMS < 1000 && i < len(all)-1 {
			t.Errorf("second %d begins after %d ms, at %s, and takes %d ms; the one before ended after %d", i, s.OffsetMS, s.At,
				s.DurationMS, end)
		}
		end = s.OffsetMS + s.DurationMS
		sum.Requests, sum.Allowed, sum.Denied = sum.Requests+s.Requests, sum.Allowed+s.Allowed, sum.Denied+s.Denied
		sum.Errors, sum.Unknown, sum.TimedOut = sum.Errors+s.Errors, sum.Unknown+s.Unknown, sum.TimedOut+s.TimedOut
		sum.Dropped += s.Dropped
		sum.ErrorTexts = append(sum.ErrorTexts, s.ErrorTexts...)
	}
	if end != r.DurationMS {
		t.Errorf("the seconds take %d ms, and the run %d", end, r.DurationMS)
	}
	if sum.Requests != r.Requests || sum.Allowed != r.Allowed || sum.Denied != r.Denied || sum.Errors != r.Errors ||
		sum.Unknown != r.Unknown || sum.TimedOut != r.TimedOut || sum.Dropped != r.Dropped {
		t.Errorf("the seconds add up to %+v, and the run has %+v", sum, r)
	}
	for _, e := range r.ErrorTexts {
		if errorsOf(sum.ErrorTexts, e.Text) != e.Count {
			t.Errorf("the seconds have %v, and the run %v", sum.ErrorTexts, r.ErrorTexts)
		}
	}
	return all, r
}

// A store that stalls for one of three and a half seconds: what was planned goes on, what was answered does not, and the next
// second has all the late answers.
func TestTheSecondsOfARunAddUp(t *testing.T) {
	const length = 3500 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		backend := &stalling{memorystore.New(), begin.Add(time.Second), begin.Add(2 * time.Second)}
		all, _ := secondsOf(t, Config{Store: backend, Population: population(t, 1, "600/1h"), Load: even(1000, length),
			Planned: even(1000, length), Workers: 2000, Duration: length, Warmup: 100 * time.Millisecond})
		if len(all) != 4 {
			t.Fatalf("%d seconds, want 4", len(all))
		}
		for i, want := range []struct {
			planned, requests, denied int64
			most                      time.Duration
		}{
			// The one that is due a millisecond before the second ends is answered exactly at its end.
			{900, 900, 400, time.Millisecond}, {1000, 0, 0, 0}, {1000, 2000, 2000, time.Second + time.Millisecond},
			{500, 500, 500, time.Millisecond},
		} {
			s, longest := all[i], time.Duration(0)
			if s.Latency != nil {
				longest = time.Duration(s.Latency.Max) * time.Microsecond
			}
			if *s.Planned != want.planned || s.Requests != want.requests || s.Denied != want.denied ||
				longest < want.most || longest > want.most+want.most/500 { // a histogram has three digits
				t.Errorf("second %d: planned %d, requests %d, denied %d, at most %s; want %+v", i, *s.Planned, s.Requests, s.Denied,
					longest, want)
			}
		}
		if p50 := all[2].Latency.P50; p50 < 1000 || p50 > 1_000_000 {
			t.Errorf("half of the late second took %d µs", p50)
		}
		if s := all[0]; s.WarmupMS != 100 || s.WarmupRequests != 100 || all[1].WarmupMS+all[3].WarmupMS != 0 {
			t.Errorf("the warm-up takes %d ms, %d requests", s.WarmupMS, s.WarmupRequests)
		}
		if s := all[3]; s.DurationMS != 500 || s.ReachedPerS != 1000 || *s.PlannedPerS != 1000 || *all[0].PlannedPerS != 1000 {
			t.Errorf("the last second is %+v, the rate planned for the first %v", s, *all[0].PlannedPerS)
		}
	})
}

// The kinds of errors have their seconds, and what was given up counts in the second in which it was.
func TestTheSecondsOfARunTellErrorsAndDrops(t *testing.T) {
	const length = 2 * time.Second
	synctest.Test(t, func(t *testing.T) {
		down, odd := errors.New("down"), errors.New("odd")
		backend := &slow{Store: memorystore.New(), takes: always(250 * time.Millisecond), fails: func(n int) error {
			switch {
			case n <= 3:
				return down
			case n == 8:
				return odd
			}
			return nil
		}}
		// One worker takes 4 requests a second of 10; of the rest each is given up when it is late by more than 300 ms.
		all, r := secondsOf(t, Config{Store: backend, Population: population(t, 1, "1000/1s"), Load: even(10, length),
			Planned: even(10, length), Workers: 1, Duration: length, Timeout: 300 * time.Millisecond})
		if r.Dropped == 0 || errorsOf(r.ErrorTexts, "down") != 3 || errorsOf(all[0].ErrorTexts, "down") != 3 ||
			errorsOf(all[1].ErrorTexts, "odd") != 1 {
			t.Errorf("%d were dropped; errors %v, by seconds %v and %v", r.Dropped, r.ErrorTexts, all[0].ErrorTexts, all[1].ErrorTexts)
		}
		if *all[0].Planned != 10 || *all[1].Planned != 10 {
			t.Errorf("planned %d and %d", *all[0].Planned, *all[1].Planned)
		}
	})
}

// A closed loop has no plan, and one that ends after a number of requests ends there.
func TestTheSecondsOfAClosedLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		backend := &slow{Store: memorystore.New(), takes: always(100 * time.Millisecond)}
		all, _ := secondsOf(t, Config{Store: backend, Population: population(t, 1, "5/1h"), Mix: Mix{Evenly(1), Costs{1, 1}}, Workers: 1,
			Duration: time.Minute, Requests: 15})
		if len(all) != 2 || all[0].Planned != nil || all[0].PlannedPerS != nil || all[0].Requests != 10 ||
			all[0].Allowed != 5 || all[1].Requests != 5 {
			t.Errorf("the seconds are %+v", all)
		}
	})
}

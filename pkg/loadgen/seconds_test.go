package loadgen

import (
	"errors"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
)

// told keeps seconds after they were told, with the p50 and the most of their latencies.
type told struct {
	Second
	p50, most time.Duration
}

// secondsOf returns the seconds of a run in virtual time, and its result.
func secondsOf(t *testing.T, config Config) (all []told, r *Result) {
	t.Helper()
	config.EachSecond = func(s *Second) {
		one := told{*s, microseconds(s.Latency, 50), microseconds(s.Latency, 100)}
		one.ErrorTexts = maps.Clone(s.ErrorTexts)
		all = append(all, one)
	}
	r = virtual(t, config)
	sum := Second{ErrorTexts: map[string]int64{}}
	end := time.Duration(0)
	for i, s := range all {
		if s.Offset != end || s.Began != r.Started.Add(s.Offset) || s.Length < 0 || s.Length > time.Second ||
			s.Length < time.Second && i < len(all)-1 {
			t.Errorf("second %d begins after %s, at %s, and takes %s; the one before ended after %s", i, s.Offset, s.Began, s.Length, end)
		}
		end = s.Offset + s.Length
		sum.Requests, sum.Allowed, sum.Denied = sum.Requests+s.Requests, sum.Allowed+s.Allowed, sum.Denied+s.Denied
		sum.Errors, sum.Unknown, sum.TimedOut = sum.Errors+s.Errors, sum.Unknown+s.Unknown, sum.TimedOut+s.TimedOut
		sum.Dropped += s.Dropped
		for text, n := range s.ErrorTexts {
			sum.ErrorTexts[text] += n
		}
	}
	if end != r.Elapsed {
		t.Errorf("the seconds take %s, and the run %s", end, r.Elapsed)
	}
	if sum.Requests != r.Requests || sum.Allowed != r.Allowed || sum.Denied != r.Denied || sum.Errors != r.Errors ||
		sum.Unknown != r.Unknown || sum.TimedOut != r.TimedOut || sum.Dropped != r.Dropped || !maps.Equal(sum.ErrorTexts, r.ErrorTexts) {
		t.Errorf("the seconds add up to %+v, and the run has %+v", sum, r)
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
			s := all[i]
			if s.Planned != want.planned || s.Requests != want.requests || s.Denied != want.denied ||
				s.most < want.most || s.most > want.most+want.most/500 { // a histogram has three digits
				t.Errorf("second %d: planned %d, requests %d, denied %d, at most %s; want %+v", i, s.Planned, s.Requests, s.Denied, s.most,
					want)
			}
		}
		if p50 := all[2].p50; p50 < time.Millisecond || p50 > time.Second {
			t.Errorf("half of the late second took %s", p50)
		}
		if s := all[0]; s.Warmup != 100*time.Millisecond || s.WarmedUp != 100 || all[1].Warmup+all[3].Warmup != 0 {
			t.Errorf("the warm-up takes %s, %d requests", s.Warmup, s.WarmedUp)
		}
		if all[3].Length != 500*time.Millisecond {
			t.Errorf("the last second takes %s", all[3].Length)
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
		if r.Dropped == 0 || r.ErrorTexts["down"] != 3 || all[0].ErrorTexts["down"] != 3 || all[1].ErrorTexts["odd"] != 1 {
			t.Errorf("%d were dropped; errors %v, by seconds %v and %v", r.Dropped, r.ErrorTexts, all[0].ErrorTexts, all[1].ErrorTexts)
		}
		if all[0].Planned != 10 || all[1].Planned != 10 {
			t.Errorf("planned %d and %d", all[0].Planned, all[1].Planned)
		}
	})
}

// A closed loop has no plan, and one that ends after a number of requests ends there.
func TestTheSecondsOfAClosedLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		backend := &slow{Store: memorystore.New(), takes: always(100 * time.Millisecond)}
		all, _ := secondsOf(t, Config{Store: backend, Population: population(t, 1, "5/1h"), Mix: Mix{Evenly(1), Costs{1, 1}}, Workers: 1,
			Duration: time.Minute, Requests: 15})
		if len(all) != 2 || all[0].Planned != -1 || all[0].Requests != 10 || all[0].Allowed != 5 || all[1].Requests != 5 {
			t.Errorf("the seconds are %+v", all)
		}
	})
}

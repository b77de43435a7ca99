package loadgen

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/limitctl/limitctl/internal/tier"

	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// slow is a store that takes virtual time.
type slow struct {
	store.Store
	takes func(n int) time.Duration // of call n
	fails func(n int) error

	mu    sync.Mutex
	calls int
}

func (s *slow) Decide(ctx context.Context, op store.Op, reqs []store.Request, decisions []store.Decision) error {
	s.mu.Lock()
	s.calls++
	n := s.calls
	s.mu.Unlock()
	if s.fails != nil {
		if err := s.fails(n); err != nil {
			return err
		}
	}
	time.Sleep(s.takes(n))
	return s.Store.Decide(ctx, op, reqs, decisions)
}

func always(d time.Duration) func(int) time.Duration { return func(int) time.Duration { return d } }

// stalling is the time that calls of a slow store take which does not answer between two instants.
func stalling(from, until time.Time) func(int) time.Duration {
	return func(int) time.Duration {
		if now := time.Now(); !now.Before(from) && now.Before(until) {
			return until.Sub(now) + time.Millisecond
		}
		return time.Millisecond
	}
}

// virtual is a run in virtual time.
func virtual(t *testing.T, config Config) *Result {
	t.Helper()
	if config.LateAfter == 0 {
		config.LateAfter = 10 * time.Millisecond
	}
	return Run(t.Context(), config)
}

// errorsOf returns how often there was an error of a text.
func errorsOf(all []ErrorCount, text string) (n int64) {
	for _, e := range all {
		if e.Text == text {
			n += e.Count
		}
	}
	return n
}

// bursts is a Load of requests that are due at once each second.
type bursts struct{ size, times, next int }

func (b *bursts) Next() (Arrival, bool) {
	due := b.next / b.size
	b.next++
	return Arrival{Due: time.Duration(due) * time.Second, Cost: 1}, due < b.times
}

func even(rate float64, length time.Duration) Load {
	return NewLoad(constant(rate, length), Mix{Evenly(1), Costs{1, 1}}, 1)
}

// A store that stalls for one second keeps a thousand requests waiting, and the report must show it. A tester that
// waits for each answer would send nothing meanwhile and hide it.
func TestAStallIsNotHidden(t *testing.T) {
	const length = 10 * time.Second
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		backend := &slow{Store: memorystore.New(),
			takes: stalling(begin.Add(5*time.Second), begin.Add(6*time.Second))}
		r := virtual(t, Config{Store: backend, Population: population(t, 1, "1000000/1s"), Load: even(1000, length),
			Workers:  2000,
			Duration: length})
		// Those due from 5 s on wait until 6 s, and are answered a millisecond later: all that were due before
		// 5.991 s are more than 10 ms late.
		if r.Requests != 10_000 || r.Dropped != 0 || r.Late != 991 {
			t.Errorf("%d requests, %d dropped, %d late", r.Requests, r.Dropped, r.Late)
		}
		if q := r.Latency; q.P50 != 1000 || q.P99 < 900_000 || q.P99 > 902_000 || q.Max < 1_001_000 ||
			q.Max > 1_002_000 {
			t.Errorf("latencies are %+v", q)
		}
		if r.Lag.Max > 1 {
			t.Errorf("the store's stall made the generator late by %d µs", r.Lag.Max)
		}
	})
}

// The latency is the same with few workers, since the wait for a worker counts.
func TestWaitingForAWorkerCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		backend := &slow{Store: memorystore.New(), takes: always(10 * time.Millisecond)}
		r := virtual(t, Config{Store: backend, Population: population(t, 1, "1000000/1s"), Load: even(200, time.Second),
			Workers:  1,
			Duration: time.Second})
		// One worker answers 100 a second, so that each request waits 5 ms more than the one before; requests of
		// the first second are sent until just after it.
		if r.Requests < 100 || r.Requests > 106 || r.Requests+r.Dropped != 200 {
			t.Errorf("%d requests and %d dropped", r.Requests, r.Dropped)
		}
		if r.Latency.Max < 500_000 || r.Service.Max > 10_010 {
			t.Errorf("the greatest latency is %d µs, the greatest service time %d µs", r.Latency.Max, r.Service.Max)
		}
		if r.Waited < 98 {
			t.Errorf("%d waited for a worker", r.Waited)
		}
	})
}

// Requests that are late while workers are free did not wait for one: this machine was slow.
func TestWaitingForTheProcessorIsNotWaitingForAWorker(t *testing.T) {
	const together = 64
	for _, workers := range []int{together, together / 4} {
		synctest.Test(t, func(t *testing.T) {
			backend := &slow{Store: memorystore.New(), takes: func(n int) time.Duration { return 5 * time.Millisecond }}
			load := &costlyLoad{&bursts{together, 1, 0},
				20 * time.Millisecond, 0}
			r := virtual(t, Config{Store: backend, Population: population(t, 1, "1000000/1s"), Load: load,
				Workers:  workers,
				Duration: time.Second})
			if want := int64(together - workers); r.Requests != together || r.Waited != want {
				t.Errorf("%d workers: of %d requests, %d waited for one, want %d", workers, r.Requests, r.Waited, want)
			}
		})
	}
}

// Requests that cannot be handed out in time are counted, and not handed out afterwards.
func TestNothingIsHandedOutAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		backend := &slow{Store: memorystore.New(), takes: always(time.Millisecond)}
		load := &costlyLoad{even(1000, time.Second), 2 * time.Millisecond, 2 * time.Millisecond}
		r := virtual(t, Config{Store: backend, Population: population(t, 1, "1000000/1s"), Load: load, Workers: 100,
			Duration: time.Second, Requests: 900})
		// One in 2 ms is handed out until a little after the end.
		if r.Requests < 500 || r.Requests > 530 || r.Requests+r.Dropped != 900 || r.DurationMS < 1000 {
			t.Errorf("%d requests and %d dropped in %d ms", r.Requests, r.Dropped, r.DurationMS)
		}
	})
}

// costlyLoad takes time for its first request, and for each that follows.
type costlyLoad struct {
	Load
	first, next time.Duration
}

func (l *costlyLoad) Next() (Arrival, bool) {
	time.Sleep(l.first)
	l.first = l.next
	return l.Load.Next()
}

// A request that has waited for longer than the timeout is dropped.
func TestWhatWaitsTooLongIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		backend := &slow{Store: memorystore.New(), takes: stalling(begin, begin.Add(2*time.Second))}
		r := virtual(t, Config{Store: backend, Population: population(t, 1, "1000000/1s"),
			Load: even(100, 4*time.Second), Workers: 1,
			Duration: 4 * time.Second, Timeout: time.Second})
		// The first occupies the worker for two seconds; those due in the first of them have then waited too long.
		if r.Dropped < 98 || r.Dropped > 101 || r.Requests+r.Dropped != 400 {
			t.Errorf("%d requests, %d dropped", r.Requests, r.Dropped)
		}
		dropped := int64(0)
		for _, i := range r.Timeline {
			if i.OffsetMS > 1000 && i.Dropped > 0 {
				t.Errorf("dropped of those due at %d ms", i.OffsetMS)
			}
			dropped += i.Dropped
		}
		if dropped != r.Dropped {
			t.Errorf("%d in the timeline, and %d in all", dropped, r.Dropped)
		}
	})
}

// A schedule of one request a second has a rate of one, even if its last request is due at the beginning of the
// last second; unless the run ended before.
func TestElapsedIsUntilTheEndOfTheSchedule(t *testing.T) {
	const length = 5 * time.Second
	for name, test := range map[string]struct {
		takes    time.Duration
		requests int64
		want     time.Duration
	}{
		"at once":     {0, 0, length},
		"late answer": {1500 * time.Millisecond, 0, 5500 * time.Millisecond},
		"cut short":   {time.Millisecond, 300, 2001 * time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := virtual(t, Config{
				Store:      &slow{Store: memorystore.New(), takes: always(test.takes)},
				Population: population(t, 1, "100/1h"), Workers: 300,
				Load: &bursts{100, 5, 0}, Duration: length,
				Requests: test.requests,
			})
			if r.DurationMS != test.want.Milliseconds() {
				t.Errorf("%s: %d ms, want %s", name, r.DurationMS, test.want)
			}
		})
	}
}

// endless is a load that is always behind, up to a bound.
type endless struct{ n, most int }

func (e *endless) Next() (Arrival, bool) {
	e.n++
	return Arrival{Cost: 1}, e.n < e.most
}

// A generator that is too slow to ever wait can be interrupted, too, also during the warm-up.
func TestInterruptOfAnOverloadedGenerator(t *testing.T) {
	for _, warmup := range []time.Duration{0, time.Minute} {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		load := &endless{most: 1 << 24}
		backend := &slow{Store: memorystore.New(), takes: always(0), fails: func(int) error { cancel(); return nil }}
		Run(ctx, Config{Store: backend, Population: population(t, 1, "100/1h"), Load: load, Workers: 1,
			Duration: time.Hour,
			Warmup:   warmup})
		if load.n == load.most {
			t.Errorf("with a warm-up of %s all was sent", warmup)
		}
	}
}

// Requests of the warm-up are sent and audited, but not counted, and its errors are nowhere.
func TestWarmup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		backend := &slow{Store: memorystore.New(), takes: func(n int) time.Duration {
			if n <= 100 {
				return 300 * time.Millisecond
			}
			return time.Millisecond
		}, fails: func(n int) error {
			switch {
			case n <= 20:
				return errors.New("warming up")
			case n == 250:
				return errors.New("away")
			}
			return nil
		}}
		r := virtual(t, Config{
			Store: backend, Population: population(t, 1, "50/1h"), Load: even(100, 3*time.Second),
			Workers: 100, Duration: 3 * time.Second, Warmup: time.Second,
		})
		if r.Requests != 200 || r.Decided != 279 || r.Allowed != 0 || r.findings[0].WorstUnits != 50 ||
			r.Latency.Max > 2000 {
			t.Errorf("%d requests, %d decided, %d allowed, %+v, at most %d µs", r.Requests, r.Decided, r.Allowed,
				r.findings[0],
				r.Latency.Max)
		}
		if r.Errors != 1 || len(r.ErrorTexts) != 1 || errorsOf(r.ErrorTexts, "away") != 1 ||
			r.FirstError.Error() != "away" {
			t.Errorf("%d errors: %v, first %v", r.Errors, r.ErrorTexts, r.FirstError)
		}
	})
}

// Errors are counted by their text. One after which the store may have charged explains later denials.
func TestErrors(t *testing.T) {
	away, unsure := errors.New("away"), &unsureError{}
	synctest.Test(t, func(t *testing.T) {
		memory := memorystore.New()
		charging := population(t, 1, "10/1h")
		backend := &slow{Store: memory, takes: always(0), fails: func(n int) error {
			switch {
			case n <= 3:
				return away
			case n <= 5: // charged, and the answer is lost
				if err := memory.Decide(t.Context(), store.Take, charging.Requests(0),
					make([]store.Decision, 1)); err != nil {
					return err
				}
				return unsure
			}
			return nil
		}}
		r := virtual(t, Config{Store: backend, Population: charging, Load: even(100, time.Second), Workers: 1,
			Duration: time.Second})
		if r.Requests != 100 || r.Errors != 5 || r.Unknown != 2 || r.Allowed != 8 || r.Denied != 87 {
			t.Errorf("%+v", r)
		}
		if errorsOf(r.ErrorTexts, "away") != 3 || errorsOf(r.ErrorTexts, "unsure") != 2 ||
			!errors.Is(r.FirstError, away) {
			t.Errorf("%v, first %v", r.ErrorTexts, r.FirstError)
		}
		if f := r.findings[0]; f.UnderAdmitted != 0 || f.OverAdmitted != 0 {
			t.Errorf("what may have been charged was not reckoned with: %+v", f)
		}
	})
}

type unsureError struct{}

func (*unsureError) Error() string        { return "unsure" }
func (*unsureError) Is(target error) bool { return target == store.ErrOutcomeUnknown }

// Answers come in any order: a request is decided at one instant, and its answer arrives long after the next
// decision. The audit puts them in order, also many of one instant.
func TestAnswersOutOfOrder(t *testing.T) {
	tier.Full(t, "many cases, which take long")
	for _, test := range []struct {
		name      string
		mostThere time.Duration
		mostBack  time.Duration
		rate      float64
		clock     time.Duration // its resolution
		limit     string
	}{
		{"far", time.Second, time.Second, 300, time.Microsecond, "20/700ms"},
		{"few at a time", 20 * time.Millisecond, 200 * time.Millisecond, 30, time.Microsecond, "4/700ms"},
		{"coarse clock", time.Second, time.Second, 300, 100 * time.Millisecond, "20/700ms"},
	} {
		for _, algorithm := range store.Algorithms() {
			t.Run(test.name+"/"+algorithm.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					clock := func() time.Time { return time.Now().Truncate(test.clock) }
					backend := farAway(test.mostThere, test.mostBack, memorystore.New(memorystore.WithClock(clock)))
					const length = 5 * time.Second
					r := virtual(t, Config{
						Store: &backend, Population: population(t, 3, algorithm.String()+":"+test.limit),
						Load: NewLoad(constant(test.rate, length), Mix{Evenly(3), Costs{1, 3}}, 3), Workers: 2000,
						Duration: length,
					})
					f := r.findings[0]
					if r.Requests != int64(test.rate*length.Seconds()) || f.OverAdmitted != 0 || f.UnderAdmitted != 0 ||
						f.OutOfOrder != 0 ||
						f.Denied == 0 {
						t.Errorf("%d requests: %+v", r.Requests, f)
					}
					if exact := algorithm.HasBurst() || algorithm == store.SlidingLog; exact && f.WorstRatio != 1 {
						t.Errorf("worst ratio %v", f.WorstRatio)
					}
				})
			})
		}
	}
}

// A clock that goes back, even a little, puts answers into a wrong order. The audit can then be wrong, and the
// report must say so.
func TestAClockThatGoesBackIsSeen(t *testing.T) {
	for _, back := range []time.Duration{0, 5 * time.Millisecond, 15 * time.Millisecond, time.Second} {
		for _, skew := range []time.Duration{0, 100 * time.Millisecond} {
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				clock := func() time.Time {
					now := time.Now()
					if now.Sub(begin) > time.Second {
						now = now.Add(-back)
					}
					return now
				}
				backend := &slow{Store: memorystore.New(memorystore.WithClock(clock)), takes: always(time.Millisecond)}
				const length = 3 * time.Second
				r := virtual(t, Config{
					Store: backend, Population: population(t, 3, "sliding-log:20/200ms"),
					Load:    NewLoad(constant(2000, length), Mix{Evenly(3), Costs{1, 3}}, 3),
					Workers: 100, Duration: length, Skew: skew,
				})
				if seen := r.ClockWentBack > 0; seen != (back > skew) {
					t.Errorf("back by %s with a skew of %s: %d answers show it", back, skew, r.ClockWentBack)
				}
			})
		}
	}
}

// delayed is a store far away.
type delayed struct {
	store.Store
	delays func() (there, back time.Duration)
}

// farAway returns backend at random distances below these.
func farAway(there, back time.Duration, backend store.Store) delayed {
	random, mu := rand.New(rand.NewPCG(1, 2)), new(sync.Mutex)
	return delayed{backend, func() (time.Duration, time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		return time.Duration(random.Int64N(int64(there))), time.Duration(random.Int64N(int64(back)))
	}}
}

func (d *delayed) Decide(ctx context.Context, op store.Op, reqs []store.Request, decisions []store.Decision) error {
	there, back := d.delays()
	time.Sleep(there)
	err := d.Store.Decide(ctx, op, reqs, decisions)
	time.Sleep(back)
	return err
}

// The service times of allowed and denied requests are told apart.
func TestTimesByOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		backend := &slow{Store: memorystore.New(), takes: func(n int) time.Duration {
			if n <= 10 { // of those, the limit lets in all
				return time.Millisecond
			}
			return 50 * time.Millisecond
		}}
		r := virtual(t, Config{Store: backend, Population: population(t, 1, "fixed-window:10/1h,from=first"),
			Load: even(100, time.Second), Workers: 10, Duration: time.Second})
		if a, d := r.AllowedService, r.DeniedService; a.P50 < 1000 || a.Max > 2000 || d.Mean < 49_900 {
			t.Errorf("%d allowed, from %+v; %d denied, from %+v", r.Allowed, a, r.Denied, d)
		}
	})
}

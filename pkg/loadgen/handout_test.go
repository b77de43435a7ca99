package loadgen

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// asked is a store that records the times of its calls, since the beginning of the run.
type asked struct {
	slow
	begin time.Time
	at    []time.Duration
}

func (a *asked) Decide(ctx context.Context, op store.Op, reqs []store.Request, decisions []store.Decision) error {
	a.mu.Lock()
	a.at = append(a.at, time.Since(a.begin))
	a.mu.Unlock()
	return a.slow.Decide(ctx, op, reqs, decisions)
}

// Every request is sent when it is due, in the order of the schedule, with few or many workers, one at a time or
// thousands at once.
func TestRequestsAreSentWhenTheyAreDue(t *testing.T) {
	const length = 2 * time.Second
	for name, test := range map[string]struct {
		load    func() Load
		workers int
		takes   time.Duration
	}{
		"one worker":                {func() Load { return even(100, length) }, 1, 9 * time.Millisecond},
		"more workers than watch":   {func() Load { return even(3000, length) }, 500, 20 * time.Millisecond},
		"many at once":              {func() Load { return &bursts{1000, 2, 0} }, 1000, 500 * time.Millisecond},
		"one at a time, much later": {func() Load { return even(1, length) }, 300, time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			var due []time.Duration
			for load := test.load(); ; {
				a, more := load.Next()
				if !more {
					break
				}
				due = append(due, a.Due)
			}
			backend := &asked{slow: slow{Store: memorystore.New(), takes: always(test.takes)}, begin: time.Now()}
			r := virtual(t, Config{
				Store: backend, Population: population(t, 1, "1000000/1s"), Workers: test.workers, Duration: length,
				Load: test.load(),
			})
			if !slices.Equal(backend.at, due) || r.Waited != 0 || r.Lag.Max != 0 {
				t.Errorf("%s: %d of %d requests, %d waited, lag up to %d µs", name, len(backend.at), len(due), r.Waited,
					r.Lag.Max)
			}
		})
	}
}

// A run says once that it is behind, when its requests have begun more than 10 ms late for more than 100 ms.
func TestARunSaysThatItIsBehind(t *testing.T) {
	for name, test := range map[string]struct {
		takes, length time.Duration
		want          int
	}{
		"in time":           {10 * time.Millisecond, time.Second, 0},
		"late for 99 ms":    {11 * time.Millisecond, 200 * time.Millisecond, 0}, // the last one begins after 209 ms
		"late for 110 ms":   {11 * time.Millisecond, 210 * time.Millisecond, 1},
		"late for a second": {20 * time.Millisecond, time.Second, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			said := 0
			virtual(t, Config{
				Store:      &slow{Store: memorystore.New(), takes: always(test.takes)},
				Population: population(t, 1, "1000/1s"),
				Workers:    1, Duration: 2 * time.Second, Load: even(100, test.length), Behind: func() { said++ },
			})
			if said != test.want {
				t.Errorf("%s: said %d times, want %d", name, said, test.want)
			}
		})
	}
}

// Workers that sleep until requests are due notice an interrupt at once, also with the clock of the machine.
func TestAnInterruptWakesAllWorkers(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	backend := &slow{Store: memorystore.New(), takes: always(0), fails: func(int) error { cancel(); return nil }}
	r := Run(ctx, Config{Store: backend, Population: population(t, 1, "100/1h"), Load: even(1.0/3600, 1000*time.Hour),
		Workers:  100,
		Duration: 1000 * time.Hour})
	if r.Requests != 1 || r.Dropped != 0 {
		t.Errorf("%d requests, %d dropped", r.Requests, r.Dropped)
	}
}

package probe

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/endpoint"
	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/loadgen"
	"github.com/limitctl/limitctl/pkg/loadgen/audit/interval"
	"github.com/limitctl/limitctl/pkg/loadgen/trace"
)

// roundTrips are servers whose limits need the words for limits of others.
var roundTrips = []struct {
	name string
	// decider is a new server, and limit what a probe names it.
	decider func(t *testing.T) decider
	limit   string
	// simulated: a simulation of the limit decides as the server does. Denied requests count in none.
	simulated bool
}{
	{"windows of a clock that is ahead", oursOf("fixed-window:10/2s,phase=370ms"), "fixed-window:10/2s,phase=370ms", true},
	{"a counter with windows of its own", oursOf("sliding-counter:10/2s,phase=1.1s"), "sliding-counter:10/2s,phase=1.1s", true},
	{"INCR and EXPIRE", oursOf("fixed-window:10/2s,from=first"), "fixed-window:10/2s,from=first", true},
	{"HAProxy http_req_rate", func(*testing.T) decider { return &haproxyRate{most: 10, period: 10_000} },
		"sliding-counter:10/10s,from=first", false},
	{"HAProxy gpc0_rate", oursOf("sliding-counter:10/5s,from=first"), "sliding-counter:10/5s,from=first", true},
	{"Bucket4j, intervally", func(*testing.T) decider { return &intervals{most: 10, period: 10e6} },
		"token-bucket:10/10s,refill=10s", true},
	{"Bucket4j, a part at a time", oursOf("token-bucket:5/2s,burst=12,refill=2s"), "token-bucket:5/2s,burst=12,refill=2s", true},
	{"nginx", func(*testing.T) decider { return &nginxLimit{rate: 10_000} }, "token-bucket:10/1s,burst=1", false},
}

func oursOf(text string) func(*testing.T) decider {
	return func(t *testing.T) decider { return newOurs(t, text) }
}

// What a probe names can be given to a probe, to a load test and to a simulation, and passes.
func TestWhatAProbeNamesCanBeGivenBack(t *testing.T) {
	for i, test := range roundTrips {
		if testing.Short() && i%4 != 0 {
			continue
		}
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			found := run(t, simulated(test.decider(t)), Config{Quota: 3000, MaxTime: 20 * time.Minute, Workers: 16})
			if found.Limit == nil {
				t.Fatalf("nothing is named: %q", found.Notes)
			}
			named, want := parse(t, found.Limit.String()), parse(t, test.limit)
			off := (named.Phase - want.Phase).Abs()
			within := max(named.PhaseWithin(), want.PhaseWithin())
			if named.Phase = want.Phase; !sameLimit(named, want) || off > within {
				t.Fatalf("it is named %s, %+v, and not %s: %q", found.Limit, found.Behaviour, test.limit, found.Notes)
			}
			for _, limit := range []store.Limit{parse(t, found.Limit.String()), want} {
				given := run(t, simulated(test.decider(t)), Config{Quota: 3000, MaxTime: 20 * time.Minute, Workers: 16, Limit: &limit})
				for _, c := range given.Checks {
					if c.Verdict == Fail && c.Name != checkRetryAfter || c.Verdict != Pass && c.Name == checkAdmitted {
						t.Errorf("probe --limit %s: %s %s: %s; %s, %q", limit, c.Verdict, c.Name, c.Expected, c.Seen, given.Notes)
					}
				}
				audited(t, test.decider(t), limit, test.simulated && limit == want)
			}
		})
	}
}

func parse(t *testing.T, text string) store.Limit {
	t.Helper()
	limit, err := store.ParseLimit(text)
	if err != nil {
		t.Fatal(err)
	}
	if limit, err = limit.Normalize(); err != nil {
		t.Fatal(err)
	}
	return limit
}

// audited has a server decide a load, and audits its answers as a load test does. A simulation of the same requests must
// decide as the server if simulated.
func audited(t *testing.T, d decider, limit store.Limit, simulated bool) {
	t.Helper()
	random := rand.New(rand.NewPCG(2, 3))
	auditor := interval.New(interval.Options{Resolution: time.Millisecond, Skew: -1})
	subjects := []string{"a", "b", "c"}
	for key := range subjects {
		auditor.SetLimit(uint32(key), limit)
	}
	var log strings.Builder
	log.WriteString("time,key\n")
	admitted := int64(0)
	begin := store.Instant(1_700_000_000_000_000)
	rate := float64(limit.Count) / float64(limit.Period.Microseconds()) * 3 // for each subject
	for at := begin; at < begin+store.Instant(12*limit.Period.Microseconds()); at += store.Instant(random.ExpFloat64() / rate / 3) {
		key := random.IntN(len(subjects))
		o := interval.Observation{Key: uint32(key), Sent: at - store.Instant(random.Int64N(2000)),
			Answered: at + store.Instant(random.Int64N(2000)), Cost: 1,
			Answer: interval.Denied}
		if d.decide(subjects[key], at) {
			o.Answer = interval.Admitted
			admitted++
		}
		auditor.Observe(o)
		fmt.Fprintf(&log, "%d,%s\n", at, subjects[key])
	}
	auditor.Settle(1 << 62)
	f, sensitivity := auditor.Finding(), auditor.Sensitivity()
	if f.OverAdmitted+f.UnderAdmitted > 0 || sensitivity.LeastOver == 0 || sensitivity.LeastUnder == 0 {
		t.Errorf("loadtest --limit %s: %d too many, %d too few of %d admitted, and %+v would have shown", limit, f.OverAdmitted,
			f.UnderAdmitted, admitted, sensitivity)
	}
	if !simulated {
		return
	}
	requests, err := trace.Read(t.Context(), strings.NewReader(log.String()), trace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	simulation, err := loadgen.Simulate(t.Context(), requests, loadgen.UnderLimits([]int{0}, limit), loadgen.SimulateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if f := simulation.Limits[0].Audit; f.OverAdmitted+f.UnderAdmitted > 0 {
		t.Errorf("simulate --limit %s finds itself wrong: %+v", limit, f)
	}
	if allowed := simulation.Tally.Requests() - simulation.Tally.Denied(); allowed != admitted {
		t.Errorf("simulate --limit %s allows %d, and the server %d of %d", limit, allowed, admitted, len(requests.Requests))
	}
}

// queue holds what fits until its turn, as nginx does without nodelay.
type queue struct {
	*server
	each time.Duration
	free map[string]time.Time // when all that was let in has gone on
	most int
}

// newQueue is a queue of 21 that lets one request through each 100 ms.
func newQueue(seed uint64) *queue {
	s := &server{shortest: 100 * time.Microsecond, longest: 3 * time.Millisecond, random: rand.New(rand.NewPCG(5, seed))}
	return &queue{server: s, each: 100 * time.Millisecond, free: map[string]time.Time{}, most: 21}
}

// Send implements [endpoint.Client].
func (q *queue) Send(ctx context.Context, subject string, cost int64, answer *endpoint.Answer) error {
	answer.Sent = time.Now()
	time.Sleep(q.shortest + time.Duration(q.chance()*float64(q.longest-q.shortest)))
	q.mutex.Lock()
	now := time.Now()
	turn := q.free[subject]
	if turn.Before(now) {
		turn = now
	}
	if turn.Sub(now) > q.each*time.Duration(q.most-1) {
		q.mutex.Unlock()
		answer.Status, answer.Outcome, answer.Answered = 429, endpoint.Denied, now
		return nil
	}
	q.free[subject] = turn.Add(q.each)
	q.mutex.Unlock()
	time.Sleep(turn.Sub(now))
	answer.Status, answer.Outcome, answer.Answered = 200, endpoint.Allowed, time.Now()
	return nil
}

// A queue is asked with more requests at once than it holds, which is what shows its end. One that holds more than the limit
// never passes, though each request may have been decided when it was answered. One that holds less denies too early, and
// nothing else is wrong with it.
func TestAQueueIsFilled(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		limit   string
		workers int
		want    Verdict
	}{
		{"token-bucket:10/1s,burst=21,spacing=even", 16, Pass},
		{"token-bucket:10/1s,burst=22,spacing=even", 16, Fail}, {"token-bucket:10/1s,burst=30,spacing=even", 16, Fail},
		{"token-bucket:10/1s,burst=25", 64, Fail},
		{"token-bucket:10/1s,burst=15,spacing=even", 16, Unknown}, {"token-bucket:10/1s,burst=20,spacing=even", 16, Unknown},
		{"token-bucket:10/1s,burst=15", 64, Unknown},
	} {
		for seed := range seeds(20) {
			synctest.Test(t, func(t *testing.T) {
				limit := parse(t, test.limit)
				r, err := Run(t.Context(), &Config{Client: newQueue(seed), Quota: 3000, MaxTime: 10 * time.Minute, Workers: test.workers,
					Limit: &limit})
				if err != nil {
					t.Fatal(err)
				}
				r = r.withoutRetry()
				accused := slices.ContainsFunc(r.Checks, func(c Check) bool { return c.Verdict == Fail && c.Name != checkAdmitted })
				if r.Overall() != test.want || accused {
					t.Errorf("%s, seed %d: %+v, notes %q", test.limit, seed, r.Checks, r.Notes)
				}
			})
		}
	}
}

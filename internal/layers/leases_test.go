package layers_test

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/limiter/storetest"
	"github.com/limitctl/limitctl/pkg/loadgen/audit"
)

// agenda is a list of functions to call at virtual times.
type agenda struct {
	*virtualTime
	jobs []job
}

type job struct {
	at time.Duration
	do func()
}

// background is for layers: a function without a delay is called at once.
func (a *agenda) background(delay time.Duration, do func()) {
	if delay == 0 {
		do()
		return
	}
	a.jobs = append(a.jobs, job{a.passed + delay, do})
}

// pass advances the time, and calls the functions that are due.
func (a *agenda) pass(d time.Duration) {
	for end := a.passed + d; ; {
		next := -1
		for i, j := range a.jobs {
			if j.at <= end && (next < 0 || j.at < a.jobs[next].at) {
				next = i
			}
		}
		if next < 0 {
			a.passed = max(a.passed, end)
			return
		}
		due := a.jobs[next]
		a.jobs = slices.Delete(a.jobs, next, next+1)
		a.passed = max(a.passed, due.at)
		due.do()
	}
}

// replicas are processes with their own layers over one store.
type replicas struct {
	*agenda
	*farStore
	stacks   []store.Store
	observed []audit.Observation
	byClock  []audit.Observation
}

func newReplicas(n int, way, back time.Duration, wrap func(store.Store, *agenda) store.Store) *replicas {
	far := newFarStore(way, back)
	r := &replicas{agenda: &agenda{virtualTime: far.time}, farStore: far}
	for range n {
		r.stacks = append(r.stacks, wrap(uncloseable{far}, r.agenda))
	}
	return r
}

// uncloseable is a store that several wrappers share.
type uncloseable struct{ store.Store }

func (uncloseable) Close() error { return nil }

func (r *replicas) take(t failer, replica int, key store.Key, limit store.Limit, cost int64) store.Decision {
	t.Helper()
	d := ask(t, r.stacks[replica], key, limit, cost)
	o := audit.Observation{At: d.At, Cost: cost, Allowed: d.Allowed, Charged: d.Allowed}
	r.observed = append(r.observed, o)
	o.At = store.InstantOf(r.time.store())
	r.byClock = append(r.byClock, o)
	return d
}

func (r *replicas) close(t failer) {
	for _, stack := range r.stacks {
		if err := stack.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// audited audits observations, and excuses denials by held units.
func audited(limit store.Limit, observed []audit.Observation, held int64) audit.Finding {
	a := audit.New()
	a.SetLimit(0, limit)
	slices.SortStableFunc(observed, func(a, b audit.Observation) int {
		if a.At == b.At && a.Allowed != b.Allowed {
			if a.Allowed {
				return -1
			}
			return 1
		}
		return cmp.Compare(a.At, b.At)
	})
	for _, o := range observed {
		if !o.Allowed {
			o.Leave = held // which explains the denial
		}
		a.Observe(o)
	}
	return a.Finding()
}

// lateRefunds is a store that gets refunds late. Until then their outcome is unknown.
func lateRefunds(backend store.Store, a *agenda, late func() time.Duration) store.Store {
	return &double{backend, func(ctx context.Context, op store.Op, _ []store.Decision, ask passing) error {
		delay := time.Duration(0)
		if op == store.Refund {
			delay = late()
		}
		if delay == 0 {
			return ask(ctx)
		}
		a.background(delay, func() {
			if err := ask(context.Background()); err != nil {
				panic(err)
			}
		})
		return errUnknown
	}}
}

// For any takes through leases and denial memories of several replicas, however late refunds reach the store, the limit
// holds by the instants of the charges, and every denial is explained by held units. By the clock it is exceeded at
// most by what leaks in a term.
func TestLeasesKeepTheLimit(t *testing.T) {
	const term = 100 * time.Millisecond
	kinds, refunds, late := map[store.Kind]int{}, 0, 0 // kinds are those of takes by leases
	for seed := range uint64(700) {
		random := rand.New(rand.NewPCG(seed, 0))
		coin := func() bool { return random.IntN(2) == 0 }
		upTo := func(most time.Duration) time.Duration {
			return time.Duration(random.Int64N(1+most.Microseconds())) * time.Microsecond
		}
		limit, most, n, isLate, remember := anyLimit(random), 2+random.Int64N(60), 1+random.IntN(3), random.IntN(3) > 0,
			coin()
		for limit.Count < 20 || !leasable(limit.Kind()) && coin() { // few of which have units to be leased
			limit = anyLimit(random)
		}
		delay := func() time.Duration {
			refunds++
			if !isLate || coin() {
				return 0
			}
			late++
			return upTo(max(limit.Period, time.Second))
		}
		r := newReplicas(n, upTo(time.Millisecond), upTo(time.Millisecond),
			func(backend store.Store, a *agenda) store.Store {
				backend = leased(store.Leases{Max: most, Term: term})(lateRefunds(backend, a, delay), a)
				if remember {
					backend = withMemory(backend, store.DenialMemory{}, a.local)
				}
				return backend
			})
		r.stacks = append(r.stacks, uncloseable{r.farStore}) // a process without leases
		takeTheRest := func() {
			for _, cost := range []int64{100, 10, 1} {
				cost = min(cost, limit.Capacity())
				for i := int64(0); i <= limit.Capacity()/cost && r.take(t, n, hotKey, limit, cost).Allowed; i++ {
				}
			}
		}
		for range 1 + random.IntN(6) {
			step := []time.Duration{0, time.Millisecond, 7 * time.Millisecond}[random.IntN(3)]
			cost := []int64{1, 1, 1, 1, 1, 1, min(3, limit.Capacity()), limit.Capacity()}[random.IntN(8)]
			replica := random.IntN(n)
			for range 5 + random.IntN(60) {
				r.pass(step)
				if r.take(t, replica, hotKey, limit, cost).DecidedBy == store.DecidedByLease {
					kinds[limit.Kind()]++
				}
			}
			for range random.IntN(7) {
				r.pass(upTo(limit.Period / 2))
				takeTheRest()
			}
		}
		r.close(t)
		for range 6 { // also after the late refunds at the end
			takeTheRest()
			r.pass(max(limit.Period, time.Second) / 5)
		}
		if f := audited(limit, r.observed, int64(n)*most); f.OverAdmitted > 0 || f.UnderAdmitted > 0 {
			t.Errorf("seed %d: %s: %d over and %d under", seed, limit, f.OverAdmitted, f.UnderAdmitted)
		}
		if kind := limit.Kind(); isLate || !leasable(kind) || !limit.Algorithm.HasBurst() && r.way+r.back > 0 {
			continue // without leases, too, an answer can come in the next window
		}
		byClock := limit
		if limit.Algorithm.HasBurst() {
			byClock.Burst += limit.Count*(term+r.way+r.back).Microseconds()/limit.Period.Microseconds() + 1
		}
		if f := audited(byClock, r.byClock, store.MaxCount); f.OverAdmitted > 0 {
			t.Errorf("seed %d: %s: by the clock %d over, at most %.2f of the limit", seed, limit, f.OverAdmitted,
				f.WorstRatio)
		}
	}
	for _, kind := range store.Kinds() {
		if leasable(kind) != (kinds[kind] > 0) {
			t.Errorf("%s: %d takes were by leases", kind, kinds[kind])
		}
	}
	t.Logf("%d of %d refunds were late", late, refunds)
	if late < 100 || refunds-late < 100 {
		t.Errorf("only %d of %d refunds were late", late, refunds)
	}
}

// leasable: units of such limits can be taken in advance.
func leasable(kind store.Kind) bool {
	return kind.Algorithm() != store.SlidingLog && kind.Algorithm() != store.LeakyBucket
}

func anyLimit(random *rand.Rand) store.Limit {
	kinds := store.Kinds()
	kind := kinds[random.IntN(len(kinds))]
	periods := []time.Duration{20 * time.Millisecond, 300 * time.Millisecond, time.Second, 3 * time.Second, time.Minute}
	limit := storetest.LimitOf(kind, 1+random.Int64N(300), periods[random.IntN(len(periods))])
	if limit.Algorithm.HasBurst() && random.IntN(2) == 0 {
		limit.Burst = 1 + random.Int64N(300)
	}
	if kind.HasSlices() {
		limit.Slices = []int64{2, 5, 10}[random.IntN(3)]
	}
	limit, err := limit.Normalize()
	if err != nil {
		panic(err)
	}
	return limit
}

package layers_test

import (
	"cmp"
	"container/heap"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/limitctl/limitctl/internal/layers"
	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/loadgen/audit"
)

// agenda is a list of functions to call at virtual times.
type agenda struct {
	*virtualTime
	timers timers
	number int
}

type timer struct {
	at     time.Duration
	number int
	f      func()
}

type timers []timer

func (t timers) Len() int { return len(t) }
func (t timers) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(t[i].at, t[j].at), cmp.Compare(t[i].number, t[j].number)) < 0
}
func (t timers) Swap(i, j int) { t[i], t[j] = t[j], t[i] }
func (t *timers) Push(x any)   { *t = append(*t, x.(timer)) }
func (t *timers) Pop() any {
	last := (*t)[len(*t)-1]
	*t = (*t)[:len(*t)-1]
	return last
}

// background is for leases: a function without a delay is called at once.
func (a *agenda) background(delay time.Duration, f func()) {
	if delay == 0 {
		f()
		return
	}
	a.number++
	heap.Push(&a.timers, timer{a.passed + delay, a.number, f})
}

// pass advances the time, and calls the functions that are due.
func (a *agenda) pass(d time.Duration) {
	end := a.passed + d
	for len(a.timers) > 0 && a.timers[0].at <= end {
		due := heap.Pop(&a.timers).(timer)
		a.passed = max(a.passed, due.at)
		due.f()
	}
	a.passed = max(a.passed, end)
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

// For any takes through leases and denial memories of several replicas, the limit holds by the instants of the
// charges, by the clock it is exceeded at most by what leaks in a term, and every denial is explained by held
// units.
func TestLeasesKeepTheLimit(t *testing.T) {
	kinds := map[store.Kind]int{} // the number of runs with leases
	leases := func(kind store.Kind) bool {
		return kind.Algorithm() != store.SlidingLog && kind.Algorithm() != store.LeakyBucket
	}
	missing := func(kind store.Kind) bool { return leases(kind) && kinds[kind] == 0 }
	const most = 50 // sets of runs; each is unlikely to omit a kind
	for n := 0; n < most && (n == 0 || slices.ContainsFunc(store.Kinds(), missing)); n++ {
		rapid.Check(t, func(t *rapid.T) {
			if limit, leased := leasesKeepTheLimit(t); leased {
				kinds[limit.Kind()]++
			}
		})
	}
	for _, kind := range store.Kinds() {
		if leases(kind) != (kinds[kind] > 0) {
			t.Errorf("%s: %d runs had leases", kind, kinds[kind])
		}
	}
}

// leasesKeepTheLimit checks one run, and reports whether it had leases.
func leasesKeepTheLimit(t *rapid.T) (limit store.Limit, leased bool) {
	const term = 100 * time.Millisecond
	duration := func(name string, most time.Duration) time.Duration {
		return time.Duration(rapid.Int64Range(0, most.Microseconds()).Draw(t, name)) * time.Microsecond
	}
	limit = anyLimit(t)
	most := rapid.Int64Range(2, 60).Draw(t, "max")
	remember := rapid.Bool().Draw(t, "denial memory")
	n := rapid.IntRange(1, 4).Draw(t, "replicas")
	r := newReplicas(n, duration("way", 2*time.Millisecond), duration("back", 2*time.Millisecond),
		func(backend store.Store, a *agenda) store.Store {
			backend = layers.WithLeases(backend, layers.Leases{Max: most, Term: term, Clock: a.local, Background: a.background})
			if remember {
				backend = layers.DenialMemory{Clock: a.local}.Wrap(backend)
			}
			return backend
		})
	key := store.Key{Subject: "user:1"}
	costs := []int64{1, 1, 1, 1, min(3, limit.Capacity()), limit.Capacity()}
	for range rapid.IntRange(1, 30).Draw(t, "bursts") {
		r.pass(duration("pause", limit.Period/2))
		replica := rapid.IntRange(0, n-1).Draw(t, "replica")
		step := rapid.SampledFrom([]time.Duration{0, time.Millisecond, 7 * time.Millisecond}).Draw(t, "step")
		cost := rapid.SampledFrom(costs).Draw(t, "cost")
		for range rapid.IntRange(1, 40).Draw(t, "takes") {
			r.pass(step)
			d := r.take(t, replica, key, limit, cost)
			leased = leased || d.DecidedBy == store.DecidedByLease
		}
	}
	r.close(t)
	held := int64(n) * most
	if f := audited(limit, r.observed, held); f.OverAdmitted > 0 || f.UnderAdmitted > 0 {
		t.Fatalf("%s: %d over and %d under", limit, f.OverAdmitted, f.UnderAdmitted)
	}
	if limit.Algorithm == store.SlidingLog || limit.Algorithm == store.LeakyBucket || !limit.Algorithm.HasBurst() && r.way+r.back > 0 {
		return limit, leased // without leases, too, an answer can come in the next window
	}
	byClock := limit
	if limit.Algorithm.HasBurst() {
		leaks := limit.Count * (term + r.way + r.back).Microseconds() / limit.Period.Microseconds()
		byClock.Burst += leaks + 1
	}
	if f := audited(byClock, r.byClock, store.MaxCount); f.OverAdmitted > 0 {
		t.Fatalf("%s: by the clock %d over, at most %.2f of the limit", limit, f.OverAdmitted, f.WorstRatio)
	}
	return limit, leased
}

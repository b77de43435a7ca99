package audit

import (
	"math"
	"math/big"
	"runtime"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/limitctl/limitctl/internal/tier"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// history is what was charged to one key, for reckoning everything the slow way.
type history struct {
	limit store.Limit
	at    []int64
	units []int64
}

func (h *history) period() int64 { return h.limit.Period.Microseconds() }

// sum returns the units charged in (after, through].
func (h *history) sum(after, through int64) (sum int64) {
	for i, at := range h.at {
		if after < at && at <= through {
			sum += h.units[i]
		}
	}
	return sum
}

// used reckons what the algorithm's definition says is in use at now.
func (h *history) charge(at, units int64) {
	if units > 0 {
		h.at, h.units = append(h.at, at), append(h.units, units)
	}
}

// told is what a decision says.
func told(d *store.Decision) *Figures {
	return &Figures{d.Used, d.Remaining, d.RetryAfter, d.ResetAfter, d.Delay}
}

func (h *history) used(now int64) int64 {
	p := h.period()
	switch h.limit.Algorithm {
	case store.SlidingLog:
		return h.sum(now-p, now)
	case store.FixedWindow:
		return h.sum(now-now%p-1, now)
	case store.SlidingCounter:
		slices := max(1, h.limit.Slices)
		width := p / slices
		start := now - now%width // of the current slice
		oldest := start - slices*width
		share := big.NewRat(start+width-now, width)
		weighted := new(big.Rat).Mul(big.NewRat(h.sum(oldest-1, oldest+width-1), 1), share)
		return ceil(weighted) + h.sum(oldest+width-1, now)
	}
	// What a bucket holds is the most that flowed in since some instant, less what leaked since.
	level := new(big.Rat)
	for i, since := range h.at {
		in := h.sum(since-1, now)
		for j := range i { // those of one instant are one after the other
			if h.at[j] == since {
				in -= h.units[j]
			}
		}
		out := new(big.Rat).Mul(big.NewRat(h.limit.Count, p), big.NewRat(now-since, 1))
		if l := new(big.Rat).Sub(big.NewRat(in, 1), out); l.Cmp(level) > 0 {
			level = l
		}
	}
	return ceil(level)
}

func ceil(r *big.Rat) int64 {
	quotient, rest := new(big.Int).QuoRem(r.Num(), r.Denom(), new(big.Int))
	if rest.Sign() > 0 {
		quotient.Add(quotient, big.NewInt(1))
	}
	return quotient.Int64()
}

// worst returns the most units of any span of one period, and the most against the limit.
func (h *history) worst() (units int64, ratio float64) {
	for i, at := range h.at {
		units = max(units, h.sum(at-h.period(), at))
		if h.limit.Algorithm.HasBurst() {
			until := history{h.limit, h.at[:i+1], h.units[:i+1]}
			ratio = max(ratio, float64(until.used(at))/float64(h.limit.Burst))
		}
	}
	if !h.limit.Algorithm.HasBurst() {
		ratio = float64(units) / float64(h.limit.Count)
	}
	return units, ratio
}

func aLimit(t *rapid.T) store.Limit {
	limit := store.Limit{
		Algorithm: rapid.SampledFrom(store.Algorithms()).Draw(t, "algorithm"),
		Count:     rapid.Int64Range(1, 12).Draw(t, "count"),
		Period:    time.Duration(rapid.Int64Range(1, 5).Draw(t, "milliseconds")) * time.Millisecond,
	}
	if limit.Algorithm.HasBurst() {
		limit.Burst = rapid.Int64Range(1, 20).Draw(t, "burst")
	}
	if limit.Algorithm.HasSlices() {
		limit.Slices = rapid.SampledFrom([]int64{1, 2, 5, 50}).Draw(t, "slices")
	}
	limit, err := limit.Normalize()
	tier.Must(t, err)
	return limit
}

// Whatever a store answers, right or wrong, the audit finds what the definitions of the algorithms say of it.
func TestFindsWhatTheDefinitionsSay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := history{limit: aLimit(t)}
		// What would have been charged without what was too much, and what with all that was denied
		// wrongly since something was in use.
		over := history{limit: h.limit}
		var under *history
		a := New()
		a.SetLimit(0, h.limit)
		var want Finding
		want.Keys = 1
		now := rapid.Int64Range(0, 20_000).Draw(t, "begin")
		n := rapid.IntRange(1, 40).Draw(t, "requests")
		for range n {
			if under != nil && h.used(now) == 0 && under.used(now) == 0 {
				under = nil
			}
			now += rapid.SampledFrom([]int64{0, 0, 1, 10, 500, 999, 1000, 1001, 2500, 20_000}).Draw(t, "step")
			cost := rapid.Int64Range(1, h.limit.Capacity()).Draw(t, "cost")
			used := h.used(now)
			answers := []string{"right", "right", "right", "charge", "deny", "leave"}
			switch fits := used+cost <= h.limit.Capacity(); rapid.SampledFrom(answers).Draw(t, "answer") {
			case "leave": // another limit of the same call denied
				a.Observe(Observation{At: store.Instant(now), Cost: cost, Allowed: true})
				continue
			case "charge":
				fits = true
				fallthrough
			case "right":
				if fits {
					want.PeakRatio = max(want.PeakRatio, float64(used+cost)/float64(h.limit.Capacity()))
					fitting := min(cost, h.limit.Capacity()-over.used(now))
					if used+cost > h.limit.Capacity() {
						want.KeysOver = 1
					}
					want.OverAdmitted += cost - fitting
					over.charge(now, fitting)
					if under != nil {
						under.charge(now, min(cost, max(0, h.limit.Capacity()-under.used(now))))
					}
					h.charge(now, cost)
					a.Observe(Observation{At: store.Instant(now), Cost: cost, Allowed: true, Charged: true})
					continue
				}
			}
			if used+cost <= h.limit.Capacity() {
				want.KeysUnder = 1
				if under == nil {
					under = &history{h.limit, slices.Clone(h.at), slices.Clone(h.units)}
				}
				if under.used(now)+cost <= h.limit.Capacity() {
					want.UnderAdmitted += cost
					under.charge(now, cost)
				}
			} else {
				want.PeakRatio = max(want.PeakRatio, 1)
			}
			a.Observe(Observation{At: store.Instant(now), Cost: cost})
			want.Denied++
			want.KeysDenied = 1
		}
		want.WorstUnits, want.WorstRatio = h.worst()
		want.Charged = float64(h.sum(-1, now))
		want.ChargedSquares = want.Charged * want.Charged
		want.Fairness = 1
		if got := a.Finding(); got != want {
			t.Fatalf("%s: found %+v\nwant %+v\nof %v %v", h.limit, got, want, h.at, h.units)
		}
	})
}

// What a request leaves to others counts: one unit that it gets of it is too much, and one that it is denied beside it
// too little. The figures are those of requests that leave as much.
func TestWhatIsLeftIsAudited(t *testing.T) {
	for _, algorithm := range store.Algorithms() {
		limit, err := store.Limit{Algorithm: algorithm, Count: 10, Period: time.Hour}.Normalize()
		tier.Must(t, err)
		for _, test := range []struct {
			used, leave           int64
			allowed               bool
			remaining             int64
			over, under, reported int64
		}{
			{6, 3, true, 0, 0, 0, 0},
			{7, 3, true, 0, 1, 0, 0},
			{7, 3, false, 0, 0, 0, 0},
			{6, 3, false, 1, 0, 1, 0},
			{9, 0, true, 0, 0, 0, 0},
			{5, 3, true, 1, 0, 0, 0},
			{5, 3, true, 4, 0, 0, 1}, // what remains to one who leaves nothing
		} {
			a := New()
			a.SetLimit(0, limit)
			var state store.State
			at := store.Instant(3_600_000_000 * 10)
			state.Charge(limit, test.used, at)
			a.Observe(Observation{At: at, Cost: test.used, Allowed: true, Charged: true})
			request := store.Request{Limit: limit, Cost: 1, Leave: test.leave}
			if test.allowed {
				state.Charge(limit, 1, at)
			}
			d := state.Answer(&request, at, test.allowed)
			d.Remaining = test.remaining
			if test.allowed && algorithm == store.LeakyBucket {
				d.Delay = time.Duration(test.used) * limit.Period / 10
			}
			a.Observe(Observation{At: at, Cost: 1, Leave: test.leave, Allowed: test.allowed, Charged: test.allowed,
				Reported: told(&d)})
			if f := a.Finding(); f.OverAdmitted != test.over || f.UnderAdmitted != test.under ||
				f.Lied != test.reported {
				t.Errorf("%s, %+v: %+v", algorithm, test, f)
			}
		}
	}
}

// If the order of the answers is not known, nothing is too much because others are to have it, but what no order
// explains is.
func TestWhatIsLeftIsNotAuditedWithoutAnOrder(t *testing.T) {
	limit, err := store.Limit{Algorithm: store.FixedWindow, Count: 10, Period: time.Hour}.Normalize()
	tier.Must(t, err)
	a := New()
	a.SetLimit(0, limit)
	a.Observe(Observation{At: 2, Cost: 7, Allowed: true, Charged: true})
	a.Observe(Observation{At: 1, Cost: 3, Leave: 5, Allowed: true, Charged: true})
	if f := a.Finding(); f.OverAdmitted != 0 || f.OutOfOrder != 1 {
		t.Errorf("%+v", f)
	}
	a.Observe(Observation{At: 3, Cost: 1, Leave: 5, Allowed: true, Charged: true})
	if f := a.Finding(); f.OverAdmitted != 1 {
		t.Errorf("one more than the limit: %+v", f)
	}
}

// What the limits of this project admit is never too much nor too little, and what a
// log or a bucket is pressed to admit is exactly the limit.
func TestNothingIsFoundOfARightStore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := aLimit(t)
		a := New()
		a.SetLimit(0, limit)
		var state store.State
		reqs := []store.Request{{Key: store.Key{Subject: "s"}, Limit: limit, Cost: 1}}
		var decisions [1]store.Decision
		now := store.Instant(rapid.Int64Range(0, 20_000).Draw(t, "begin"))
		pressed, leaves := false, rapid.Bool().Draw(t, "leaves")
		for range rapid.IntRange(1, 100).Draw(t, "requests") {
			if leaves {
				reqs[0].Leave = rapid.Int64Range(0, limit.Capacity()-1).Draw(t, "leave")
			}
			_, _ = store.Decide(store.Take, reqs, []*store.State{&state}, decisions[:], nil, now)
			a.Observe(Observation{At: now, Cost: 1, Leave: reqs[0].Leave, Allowed: decisions[0].Allowed,
				Charged:  decisions[0].Allowed,
				Reported: told(&decisions[0])})
			pressed = pressed || !decisions[0].Allowed && !leaves
			now += store.Instant(rapid.Int64Range(0, 1500).Draw(t, "step"))
		}
		found := a.Finding()
		if found.OverAdmitted != 0 || found.UnderAdmitted != 0 || found.Lied != 0 || found.Reported == 0 {
			t.Fatalf("%s: %+v", limit, found)
		}
		exact := !leaves && (limit.Algorithm == store.SlidingLog || limit.Algorithm.HasBurst())
		if exact && (found.WorstRatio > 1 || pressed && found.WorstRatio != 1) {
			t.Fatalf("%s: worst ratio %v, denied %t", limit, found.WorstRatio, pressed)
		}
		if found.WorstRatio > 2 {
			t.Fatalf("%s: worst ratio %v", limit, found.WorstRatio)
		}
	})
}

// An outcome that is not known may explain a denial, and never excuses an admission.
func TestUnknownOutcomes(t *testing.T) {
	limit := store.Limit{Algorithm: store.SlidingLog, Count: 10, Period: time.Second, Burst: 10}
	a := New()
	a.SetLimit(0, limit)
	a.Unknown(0, 4, 0)
	for range 6 {
		a.Observe(Observation{At: 1, Cost: 1, Allowed: true, Charged: true})
	}
	a.Observe(Observation{At: 2, Cost: 1}) // 6 + 4 are in use, perhaps
	if f := a.Finding(); f.UnderAdmitted != 0 {
		t.Errorf("a denial that an unknown charge explains: %+v", f)
	}
	for range 5 {
		a.Observe(Observation{At: 3, Cost: 1, Allowed: true, Charged: true})
	}
	if f := a.Finding(); f.OverAdmitted != 1 || f.WorstRatio != 1.1 {
		t.Errorf("the eleventh of ten: %+v", f)
	}
	// What was charged since they were given up counts with them.
	limit.Period = time.Hour
	a = New()
	a.SetLimit(0, limit)
	a.Unknown(0, 4, 0)
	for _, at := range []store.Instant{1, 11_000_000, 11_000_001} {
		a.Observe(Observation{At: at, Cost: 2, Allowed: true, Charged: true})
	}
	a.Observe(Observation{At: 12_000_000, Cost: 1})
	if f := a.Finding(); f.UnderAdmitted != 0 {
		t.Errorf("a denial that an unknown charge of before explains: %+v", f)
	}
}

func TestWhatComesTooLate(t *testing.T) {
	a := New()
	a.SetLimit(0, store.Limit{Algorithm: store.FixedWindow, Count: 2, Period: time.Second, Burst: 2})
	a.Observe(Observation{At: 1_000_000, Cost: 1, Allowed: true, Charged: true})
	a.Observe(Observation{At: 999_999, Cost: 1, Allowed: true, Charged: true}) // by its instant in the window before
	a.Observe(Observation{At: 1_000_001, Cost: 1})
	if f := a.Finding(); f.OutOfOrder != 1 || f.UnderAdmitted != 0 || f.WorstUnits != 2 || f.Reported != 0 {
		t.Errorf("%+v", f)
	}
	// What answers tell of the key is not judged any more, and of others it is.
	a.SetLimit(1, store.Limit{Algorithm: store.FixedWindow, Count: 2, Period: time.Second, Burst: 2})
	for key := range uint32(2) {
		a.Observe(Observation{Key: key, At: 1_000_002, Cost: 1, Reported: &Figures{Used: 77}})
	}
	if f := a.Finding(); f.Reported != 1 || f.Lied != 1 || f.Lies[Used].Key != 1 {
		t.Errorf("%+v", f)
	}
}

func TestFairness(t *testing.T) {
	a := New()
	for key, units := range []int64{8, 4, 0} {
		a.SetLimit(uint32(key), store.Limit{Algorithm: store.TokenBucket, Count: 10, Period: time.Second, Burst: 10})
		a.Observe(Observation{Key: uint32(key), At: 5, Cost: max(1, units), Allowed: units > 0, Charged: units > 0})
	}
	if got := a.Finding(); math.Abs(got.Fairness-0.6) > 1e-12 || got.Keys != 3 || Fairness(0, 0, 0) != 1 {
		t.Errorf("fairness %v over %d keys", got.Fairness, got.Keys)
	}
}

// An hour at 20,000 requests a second, all admitted under limits of an hour, is the most that an audit is asked to
// hold, in less than 24 bytes for each. Here it is a hundredth of the requests, on a hundredth of the keys.
func TestAnHourInBoundedMemory(t *testing.T) {
	const requests, most = 3600 * 20_000 / 100, 24 * 3600 * 20_000 / 100 // of memory, in bytes
	for _, test := range []struct {
		algorithm store.Algorithm
		keys      uint32
	}{{store.TokenBucket, 1}, {store.SlidingLog, 1_000}} {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		a := New()
		for key := range test.keys {
			a.SetLimit(key, store.Limit{Algorithm: test.algorithm, Count: 1_000_000, Burst: 1_000_000,
				Period: time.Hour})
		}
		at, state := store.Instant(1_800_000_000_000_000), uint64(1)
		for range requests {
			state = state*6364136223846793005 + 1442695040888963407
			at += store.Instant(state>>55) * 2 // 0 to 1,022 µs, 500 on average
			a.Observe(Observation{Key: uint32(state>>33) % test.keys, At: at, Cost: 1, Allowed: true, Charged: true})
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		held := after.HeapAlloc - before.HeapAlloc
		if held > most {
			t.Errorf("%s on %d keys holds %d bytes", test.algorithm, test.keys, held)
		}
		if f := a.Finding(); f.WorstUnits < requests/int64(test.keys)/2 || f.OutOfOrder > 0 {
			t.Errorf("%+v", f)
		}
	}
}

package interval

import (
	"flag"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

var thorough = flag.Bool("thorough", false, "try three times as many random cases")

// oracle tries all instants at which a few requests of one key can have been decided, in all
// orders, for an assignment that makes all answers right.
type oracle struct {
	limit         store.Limit
	requests      []Observation
	chargesDenied bool
	latest        store.Instant
}

// possible reports whether there is one for what is left of the requests, from an instant on.
func (o *oracle) possible(state *store.State, from store.Instant, left uint, phase store.Instant) bool {
	if left == 0 {
		return true
	}
	for i := range o.requests {
		if left&(1<<i) == 0 {
			continue
		}
		r := &o.requests[i]
		rest := left &^ (1 << i)
		if r.Answer == Unknown && o.possible(state, from, rest, phase) {
			return true // it never arrived
		}
		until := r.Answered + 1
		if r.Answer == Unknown {
			until = o.latest
		}
		for at := max(from, r.Sent); at <= until; at++ {
			s, d := state.Clone(), store.Decision{}
			request := store.Request{Limit: o.limit, Cost: r.Cost}
			store.DecideOne(store.Take, &request, s, &d, at-phase)
			if r.Answer != Unknown && d.Allowed != (r.Answer == Admitted) {
				continue
			}
			if !d.Allowed && o.chargesDenied {
				s.Charge(o.limit, r.Cost, at-phase)
			}
			if o.possible(s, at, rest, phase) {
				return true
			}
		}
	}
	return false
}

// right reports whether anything makes all answers right.
func (o *oracle) right(phases store.Instant) bool {
	all := uint(1)<<len(o.requests) - 1
	for _, o.chargesDenied = range []bool{false, true} {
		if o.chargesDenied && o.limit.Algorithm.HasBurst() {
			break
		}
		for phase := range phases {
			if o.possible(&store.State{}, 0, all, phase) {
				return true
			}
		}
	}
	return false
}

// What an enumeration of all instants can explain is not called wrong, and most of what it cannot is.
func TestAgainstAllAssignments(t *testing.T) {
	right, wrong, found, all := 0, 0, map[int]int{}, map[int]int{}
	runs, least := 4000, 350
	if *thorough {
		runs, least = 12_000, 1000
	}
	for seed := range runs {
		random := rand.New(rand.NewPCG(uint64(seed), 3))
		kind := random.IntN(kinds)
		limit := limitOf(kind, 1+random.Int64N(3), 8*time.Microsecond*1000, random)
		limit.Period = 8 * time.Microsecond
		o := &oracle{limit: limit}
		phases, options := store.Instant(1), Options{}
		if limit.Algorithm == store.SlidingCounter || limit.Algorithm == store.FixedWindow && !limit.FromFirst {
			phases = 8
		}
		server := newExact(limit)
		server.limit.Count += random.Int64N(3) - 1
		server.limit.Burst += server.limit.Count - limit.Count
		server.chargesDenied = chance(random, 0.3)
		skew := store.Instant(random.Int64N(int64(phases)))
		a := New(options)
		a.SetLimit(0, limit)
		at, span := epoch-epoch%840, random.Int64N(6)+1
		for range 3 + random.IntN(3) {
			at += store.Instant(random.Int64N(4))
			back := store.Instant(random.Int64N(span))
			r := Observation{Sent: at - store.Instant(random.Int64N(span)), Answered: at + back, Cost: 1,
				Answer: Denied}
			if chance(random, 0.2) {
				r.Cost = min(2, limit.Capacity())
			}
			if server.limit.Capacity() >= r.Cost && server.allows(0, r.Cost, at-skew) {
				r.Answer = Admitted
			}
			if chance(random, 0.05) {
				r.Answer = Unknown
			}
			o.requests = append(o.requests, r)
			o.latest = max(o.latest, r.Answered+1)
		}
		for _, r := range o.requests {
			a.Observe(r)
		}
		a.Settle(maxInstant)
		f := a.Finding()
		isRight, isFound := o.right(phases), f.OverAdmitted+f.UnderAdmitted > 0
		switch {
		case isRight && isFound:
			t.Fatalf("seed %d: %s, %+v, at %d: %+v is called wrong: %+v", seed, limit, options, epoch-epoch%840,
				o.requests, f)
		case isRight:
			right++
		default:
			wrong++
			all[kind]++
			if isFound {
				found[kind]++
			}
		}
	}
	if wrong < least || right < least {
		t.Errorf("%d right and %d wrong: one of them is hardly tested", right, wrong)
	}
	for kind := range kinds {
		l := limitOf(kind, 1, time.Second, rand.New(rand.NewPCG(1, 1)))
		share := float64(found[kind]) / float64(all[kind])
		t.Logf("%s: found %.2f of %d that are wrong", l, share, all[kind])
		least := 0.5
		if l.Algorithm == store.SlidingCounter { // at some phase of its windows nearly everything here is right
			least = 0.1
		}
		if share < least {
			t.Errorf("%s: found %.2f of what is wrong", l, share)
		}
	}
}

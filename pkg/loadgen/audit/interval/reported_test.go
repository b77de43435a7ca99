package interval

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/loadgen/audit"
)

// telling is a server that is right and reports it, as services do.
type telling struct {
	*exact
	random *rand.Rand
	// spoil changes what is reported of a decision.
	spoil func(d *store.Decision, r *Reported)
	last  *Reported
}

func (s *telling) allows(key uint32, cost int64, now store.Instant) bool {
	d := s.decide(key, cost, now)
	allowed := d.Allowed
	ceil := func(d time.Duration) time.Duration { return (d + time.Second - 1).Truncate(time.Second) }
	s.last = &Reported{Remaining: d.Remaining, RetryAfter: NotReported, ResetAfter: ceil(d.ResetAfter)}
	if chance(s.random, 0.3) { // others round down, or mean when there is more
		s.last.ResetAfter = d.ResetAfter.Truncate(time.Second)
	}
	if !allowed {
		s.last.RetryAfter = ceil(d.RetryAfter)
		if chance(s.random, 0.2) { // clients are to come back apart
			s.last.RetryAfter += time.Duration(s.random.Int64N(int64(10 * time.Second)))
		}
	}
	if chance(s.random, 0.1) {
		s.last.Remaining = NotReported
	}
	if s.spoil != nil {
		s.spoil(&d, s.last)
	}
	return allowed
}

// What is right is never called wrong, however many requests are under way, however long answers take and however far
// the clocks are apart.
func TestNothingRightIsCalledWrong(t *testing.T) {
	runs := 2000
	if testing.Short() {
		runs = 300
	} else if *thorough {
		runs = 20000
	}
	reported := int64(0)
	for seed := range runs {
		random := rand.New(rand.NewPCG(uint64(seed), 2))
		w := randomWorld(random, 20+random.IntN(400))
		s := &telling{exact: newExact(w.limit), random: random}
		s.chargesDenied = !w.limit.Algorithm.HasBurst() && chance(random, 0.3)
		w.reports = func() *Reported { return s.last }
		f := w.run(s)
		reported += f.Reported
		if f.Lied != 0 || f.OverAdmitted != 0 || f.UnderAdmitted != 0 || f.OutOfOrder != 0 ||
			f.WorstUnits > w.worst() ||
			w.limit.Algorithm.HasBurst() && f.WorstRatio > 1 {
			t.Errorf("seed %d: %s, charges denied %t, clock %d, %+v: %+v", seed, w.limit, s.chargesDenied, w.clock,
				w.options, f)
		}
	}
	if reported < int64(60*runs) {
		t.Errorf("only %d reports were held against the truth", reported)
	}
}

// near is what is known of a clock that is nearly the one here.
var near = Options{Resolution: time.Millisecond}

// Lies under load are found: some by what must have been decided before, others because two answers exclude each other.
func TestLiesUnderLoadAreFound(t *testing.T) {
	for _, test := range []struct {
		what  string
		field audit.Field
		kinds []int // of limits; nil for all
		spoil func(d *store.Decision, r *Reported)
	}{
		{"one too many", audit.Remaining, nil, func(_ *store.Decision, r *Reported) { r.Remaining++ }},
		{"one too few", audit.Remaining, []int{0, 2, 4}, func(_ *store.Decision, r *Reported) {
			r.Remaining = max(0, r.Remaining-1)
		}},
		{"retry at once", audit.RetryAfter, []int{2, 3}, func(_ *store.Decision, r *Reported) {
			r.RetryAfter = min(r.RetryAfter, 0)
		}},
		{"retry in a minute", audit.RetryAfter, nil, func(_ *store.Decision, r *Reported) {
			if r.RetryAfter != NotReported {
				r.RetryAfter = time.Minute
			}
		}},
		{"retry half a minute later", audit.RetryAfter, nil, func(d *store.Decision, r *Reported) {
			if r.RetryAfter != NotReported {
				r.RetryAfter = d.RetryAfter + 30*time.Second
			}
		}},
		{"reset in milliseconds", audit.ResetAfter, nil, func(d *store.Decision, r *Reported) {
			r.ResetAfter = d.ResetAfter * 1000
		}},
	} {
		for kind := range kinds {
			if test.kinds != nil && !slices.Contains(test.kinds, kind) {
				continue
			}
			random := rand.New(rand.NewPCG(uint64(kind), 3))
			w := &world{limit: limitOf(kind, 20, 5*time.Second, random), keys: 1, options: near}
			at := epoch
			for range 2000 { // 100/s, some 3 under way
				at += store.Instant(random.Int64N(20_000))
				w.ask(0, at, store.Instant(random.Int64N(30_000)), store.Instant(random.Int64N(30_000)), 1)
			}
			s := &telling{exact: newExact(w.limit), random: random, spoil: test.spoil}
			w.reports = func() *Reported { return s.last }
			if f := w.run(s); f.Lies[test.field].Answers == 0 || f.Lied == 0 || f.Lied > f.Reported {
				t.Errorf("%s of %s: %+v", test.what, w.limit, f)
			}
		}
	}
}

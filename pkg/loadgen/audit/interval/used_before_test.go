package interval

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// forget leaves out the first requests, as if they had been sent by somebody else before the run began. Those that
// were sent while these were under way are left out as well. It reports whether any are left.
func (w *world) forget(n int) bool {
	slices.SortStableFunc(w.asked, func(a, b asked) int { return int(a.Sent - b.Sent) })
	var until store.Instant
	for i := range w.asked {
		a := &w.asked[i]
		if i >= n && a.Sent > until {
			w.asked = w.asked[i:]
			return true
		}
		until = max(until, a.decided, a.Answered)
	}
	return false
}

// Keys that were in use before are never called wrong, whatever had been used.
func TestNothingRightIsCalledWrongOfKeysUsedBefore(t *testing.T) {
	runs := 6000
	if testing.Short() {
		runs = 500
	}
	for seed := range runs {
		random := rand.New(rand.NewPCG(uint64(seed), 5))
		w := randomWorld(random, 20+random.IntN(400))
		w.options.UsedBefore = true
		s := newExact(w.limit)
		s.chargesDenied = !w.limit.Algorithm.HasBurst() && chance(random, 0.3)
		w.decide(s)
		if !w.forget(1 + random.IntN(len(w.asked)-1)) {
			continue
		}
		if f := w.audit(); f.OverAdmitted != 0 || f.UnderAdmitted != 0 || f.OutOfOrder != 0 {
			t.Errorf("seed %d: %s, charges denied %t, %+v: %+v", seed, w.limit, s.chargesDenied, w.options, f)
		}
	}
}

// never is a server that denies everything.
type never struct{}

func (never) allows(uint32, int64, store.Instant) bool { return false }

// A server that never admits anything is found also if its keys may have been in use, unless it can
// be one that charges what it denies.
func TestDenyingForeverIsFoundOfKeysUsedBefore(t *testing.T) {
	for kind := range kinds {
		w := &world{
			limit: limitOf(kind, 5, time.Second, rand.New(rand.NewPCG(1, 1))), keys: 1,
			options: Options{Resolution: time.Millisecond, UsedBefore: true},
		}
		for i := range store.Instant(100) {
			w.ask(0, epoch+i*100_000, 100, 100, 1)
		}
		if f := w.run(never{}); f.UnderAdmitted == 0 && f.UnderIfFree == 0 {
			t.Errorf("%s: denying all for ten periods was not found: %+v", w.limit, f)
		}
	}
}

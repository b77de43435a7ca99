package interval

import (
	"math/rand/v2"
	"testing"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// flawed is a right server but for some answers, after which it is right again as if those had been
// right.
type flawed struct {
	*exact
	random      *rand.Rand
	often       float64
	over, under int64 // units
	onlyOver    bool
}

func (s *flawed) allows(key uint32, cost int64, now store.Instant) bool {
	if !chance(s.random, s.often) {
		return s.exact.allows(key, cost, now)
	}
	if state := s.states[key]; state == nil || state.Used(now)+cost <= s.limit.Capacity() {
		if s.onlyOver {
			return s.exact.allows(key, cost, now)
		}
		s.under += cost
		return false
	}
	s.over += cost
	return true
}

// No more is called wrong than was wrong. In windows a denial is taken at its word: from then on its window was full.
func TestLeastIsNoMoreThanWasWrong(t *testing.T) {
	found, wrong := [2]int64{}, [2]int64{}
	for seed := range 3000 {
		random := rand.New(rand.NewPCG(uint64(seed), 2))
		w := randomWorld(random, 20+random.IntN(300))
		s := &flawed{exact: newExact(w.limit), random: random, often: []float64{0.003, 0.02, 0.2}[random.IntN(3)]}
		s.onlyOver = w.limit.Algorithm == store.FixedWindow
		w.drift = 0
		w.decide(s)
		f := w.audit()
		if f.LeastOver > s.over || f.LeastUnder > s.under {
			t.Errorf("seed %d: %s: over %d of %d, under %d of %d, %+v", seed, w.limit, f.LeastOver, s.over, f.LeastUnder, s.under, f)
		}
		found[0], found[1] = found[0]+f.LeastOver, found[1]+f.LeastUnder
		wrong[0], wrong[1] = wrong[0]+s.over, wrong[1]+s.under
	}
	t.Logf("found %d of %d units too many, and %d of %d denied wrongly", found[0], wrong[0], found[1], wrong[1])
}

package interval

import (
	"math/rand/v2"
	"testing"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// flawed is a right server but for some answers, after which it is right again as if those had been right.
type flawed struct {
	*exact
	random      *rand.Rand
	often       float64
	over, under int64 // units
}

func (s *flawed) allows(key uint32, cost int64, now store.Instant) bool {
	if !chance(s.random, s.often) {
		return s.exact.allows(key, cost, now)
	}
	if state := s.states[key]; state == nil || state.Used(now)+cost <= s.limit.Capacity() {
		s.under += cost
		return false
	}
	s.over += cost
	return true
}

// No more is called wrong than was wrong. In windows a denial is taken at its word, its window was full, and so is what
// is admitted after it, which begins another: of these it is only certain that one was wrong.
func TestLeastIsNoMoreThanWasWrong(t *testing.T) {
	found, made := [2]int64{}, [2]int64{}
	for seed := range 3000 {
		random := rand.New(rand.NewPCG(uint64(seed), 2))
		w := randomWorld(random, 20+random.IntN(300))
		s := &flawed{exact: newExact(w.limit), random: random, often: []float64{0.003, 0.02, 0.2}[random.IntN(3)]}
		w.drift = 0
		w.decide(s)
		f := w.audit()
		wrong := f.OverAdmitted > s.over || f.UnderAdmitted > s.under
		if w.limit.Algorithm == store.FixedWindow {
			wrong = f.OverAdmitted+f.UnderAdmitted > 0 && s.over+s.under == 0
		}
		if wrong {
			t.Errorf("seed %d: %s: over %d of %d, under %d of %d, %+v", seed, w.limit, f.OverAdmitted, s.over,
				f.UnderAdmitted, s.under, f)
		}
		found[0], found[1] = found[0]+f.OverAdmitted, found[1]+f.UnderAdmitted
		made[0], made[1] = made[0]+s.over, made[1]+s.under
	}
	t.Logf("found %d of %d units too many, and %d of %d denied wrongly", found[0], made[0], found[1], made[1])
}

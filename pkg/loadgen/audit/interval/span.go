package interval

import (
	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/loadgen/audit"
)

// span finds the most units that were surely admitted within some span of time.
type span struct {
	recent pairs // the first instants of units that are surely of the last period
	units  int64
	worst  int64

	// Of a bucket: most is the greatest of rate × first instant − units before, over all
	// units so far.
	base       store.Instant
	count      int64
	most       float64
	worstLevel float64
}

// spanSteps is how many instants are distinguished in a period, which bounds the memory.
const spanSteps = 256

// add takes units that were admitted from lo to hi.
func (s *span) add(limit *store.Limit, lo, hi store.Instant, units int64) {
	period := periodOf(limit)
	if s.count == 0 {
		s.base = lo
	}
	rate := float64(limit.Count) / float64(period)
	if begins := rate*float64(lo-s.base) - float64(s.count); s.count == 0 || begins > s.most {
		s.most = begins
	}
	s.count += units
	s.worstLevel = max(s.worstLevel, float64(s.count)-rate*float64(hi-s.base)+s.most)

	step := max(1, period/spanSteps)
	s.recent.add(lo-lo%step, units)
	s.units += units
	for first := s.recent.first(); first != nil && hi-first.at >= period; first = s.recent.first() {
		_, n := s.recent.take(s.units)
		s.units -= n
	}
	s.worst = max(s.worst, s.units)
}

// ratio returns the most that was surely admitted against what the limit allows.
func (s *span) ratio(limit *store.Limit) float64 {
	if limit.Algorithm.HasBurst() {
		return s.worstLevel / float64(limit.Burst)
	}
	return float64(s.worst) / float64(limit.Count)
}

// totals is what is wrong under a phase, in all keys of a group. All are units.
type totals struct {
	over                    int64 // admitted and too many, at least
	underFree, underCharged int64 // denied wrongly, if denied requests are charged or not
	leastUnder              int64 // as underFree, where correcting one explains those after it
	// leastOver is as over, and leastUnder too, under whichever phase it is least; only of a group.
	leastOver int64
	// peak is the most that any key surely had in use against its capacity. A denial that had a
	// reason had that one: the limit was reached.
	peak        float64
	sensitivity sharpness
	// lies is what answers reported wrong, and lied how many answers did. late is those of them whose only lie is a wait that is
	// too long, by at most longest, and onTime the waits that were not.
	lies         audit.Lies
	lied, onTime int64
	late         audit.Lie
	longest      store.Instant
}

// add adds what was found before.
func (t *totals) add(before *totals) {
	t.over += before.over
	t.underFree += before.underFree
	t.underCharged += before.underCharged
	t.leastOver += before.leastOver
	t.leastUnder += before.leastUnder
	t.peak = max(t.peak, before.peak)
	t.sensitivity.over = leastOf(t.sensitivity.over, before.sensitivity.over)
	t.sensitivity.under = leastOf(t.sensitivity.under, before.sensitivity.under)
}

// sharpness is how little would have been found wrong.
type sharpness struct{ over, under int64 }

// admitted takes how many more units could have been admitted unnoticed.
func (s *sharpness) admitted(spare int64) {
	if spare++; s.over == 0 || spare < s.over {
		s.over = spare
	}
}

// denied takes how many more units were perhaps in use than a denial needed.
func (s *sharpness) denied(beyond int64) {
	if s.under == 0 || beyond < s.under {
		s.under = max(1, beyond)
	}
}

// leastOf returns the lesser of those that are not 0.
func leastOf(a, b int64) int64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

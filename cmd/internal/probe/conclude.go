package probe

import (
	"slices"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter"
)

// conclude says what was found out, and what could not be told apart.
func (x *explorer) conclude(spent error) {
	if len(x.explanations) == 0 {
		x.note("at most %d at once", x.burst.admitted)
		if n := len(x.events); n > 0 {
			x.note("nothing came back in %s", x.events[n-1].Answered.Sub(x.events[0].Sent).Round(time.Millisecond))
		}
		return
	}
	best := slices.MinFunc(x.explanations, func(a, b explanation) int { return plainness(&a.models[0]) - plainness(&b.models[0]) })
	m := &best.models[0]
	limit := limitOf(m)
	if best.wrong > 0 {
		x.note("no known algorithm explains all answers; the nearest one is %s, which does not explain %d of %d", limit, best.wrong, len(x.events))
		if best.wrong > 1+len(x.events)/100 {
			return
		}
	}
	x.d.Limit = &limit
	x.d.Exact = best.wrong == 0 && best.round && len(x.explanations) == 1
	if m.isAligned() && m.limit.Algorithm != limiter.TokenBucket {
		x.d.Phase, x.d.PhaseKnown = m.phase, true
	}
	for i := range x.explanations {
		for _, other := range x.explanations[i].models {
			l := limitOf(&other)
			if l != limit && !slices.Contains(x.d.Alternatives, l) {
				x.d.Alternatives = append(x.d.Alternatives, l)
			}
		}
	}
	_ = spent
}

// plainness orders models that explain the same: the lower, the more usual.
func plainness(m *model) int {
	order := 0
	switch {
	case m.limit.Algorithm == limiter.TokenBucket:
		order = 0
	case m.limit.FromFirst:
		order = 20
	case m.limit.Algorithm == limiter.FixedWindow:
		order = 10
	case m.limit.Algorithm == limiter.SlidingLog:
		order = 30
	default:
		order = 40 + int(min(m.limit.Slices, 50))
	}
	for _, unusual := range []bool{m.anchored, m.tick > 0, m.counted, m.refreshed, m.ban > 0, m.phase != 0} {
		if unusual {
			order += 100
		}
	}
	return order
}

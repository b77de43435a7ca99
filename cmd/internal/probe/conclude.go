package probe

import (
	"slices"
	"strings"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter"
)

// conclude says what was found out, and what could not be told apart.
func (x *explorer) conclude(spent error) {
	if spent != nil {
		x.note("%s before all was told apart", spent)
	}
	if x.shared {
		x.note("all subjects share one limit")
	}
	if len(x.explanations) == 0 {
		x.note("%d were admitted at once", x.burst.admitted)
		if n := len(x.events); n > 0 && len(x.evidence.edges) == 0 {
			x.note("nothing came back in %s, so the period is longer", x.events[n-1].Answered.Sub(x.events[0].Sent).Round(time.Millisecond))
		}
		return
	}
	best := slices.MinFunc(x.explanations, func(a, b explanation) int { return plainness(&a.models[0]) - plainness(&b.models[0]) })
	m := &best.models[0]
	if best.wrong > 0 {
		x.note("no algorithm known here explains all answers; the nearest one is %s, which does not explain %d of %d", m.limit, best.wrong, len(x.events))
		if best.wrong > 1+len(x.events)/100 {
			return
		}
	}
	limit := m.limit
	x.d.Limit = &limit
	others := slices.ContainsFunc(x.explanations, func(e explanation) bool { return e.models[0].limit != limit })
	x.d.Exact = best.wrong == 0 && best.round && !others
	if !best.round {
		x.note("the period can be from %s to %s", limiter.FormatPeriod(best.low), limiter.FormatPeriod(best.high))
	}
	if m.isAligned() && m.tick == 0 {
		x.findPhase(m, best.wrong)
	}
	x.peculiarities(m)
	for i := range x.explanations {
		for _, other := range x.explanations[i].models {
			if other.limit != limit && !slices.Contains(x.d.Alternatives, other.limit) {
				x.d.Alternatives = append(x.d.Alternatives, other.limit)
			}
		}
	}
	if others {
		x.note("%s", x.undecided())
	}
	if limit.Algorithm == limiter.TokenBucket {
		leaky := limit
		leaky.Algorithm = limiter.LeakyBucket
		x.d.Alternatives = append(x.d.Alternatives, leaky)
		x.note("a token bucket, GCRA, and a leaky bucket that turns away what does not fit answer alike")
	}
}

// findPhase says when windows begin: in the middle of all phases that explain as much, and 0 if
// that is one of them.
func (x *explorer) findPhase(m *model, wrong int) {
	period := m.limit.Period
	reach := func(direction time.Duration) time.Duration {
		explains := func(by time.Duration) bool {
			other := *m
			other.phase = ((m.phase+direction*by)%period + period) % period
			return x.evidence.h.contradictions(&other, wrong+1) <= wrong
		}
		good, bad := time.Duration(0), time.Millisecond
		for bad < period/2 && explains(bad) {
			good, bad = bad, bad*2
		}
		for bad-good > time.Millisecond/2 {
			if middle := ((good + bad) / 2).Truncate(time.Microsecond); explains(middle) {
				good = middle
			} else {
				bad = middle
			}
		}
		return good
	}
	earlier, later := reach(-1), reach(1)
	x.d.Phase, x.d.PhaseKnown, x.d.PhaseWithin = m.phase, true, max(earlier, later)
	if m.phase != 0 {
		x.d.Phase = (m.phase + (later-earlier)/2 + period) % period
		x.d.PhaseWithin = (earlier + later) / 2
		m.phase = x.d.Phase
	}
	if earlier+later > period/4 {
		x.d.PhaseKnown = false
	}
}

// undecided names the families that were not told apart.
func (x *explorer) undecided() string {
	var names []string
	for i := range x.explanations {
		m := &x.explanations[i].models[0]
		name := m.limit.String()
		for _, text := range m.peculiarities() {
			name += " (" + text + ")"
		}
		names = append(names, name)
	}
	return "not told apart: " + strings.Join(names, "; ")
}

// peculiarities notes what a limit cannot say about a model.
func (x *explorer) peculiarities(m *model) {
	for _, text := range m.peculiarities() {
		x.note("%s", text)
	}
}

// peculiarities returns what a limit cannot say about a model, in words.
func (m *model) peculiarities() (all []string) {
	for _, p := range []struct {
		is   bool
		text string
	}{
		{m.anchored, "its windows begin with a subject's first request, and follow each other without a gap"},
		{m.counted, "denied requests count as admitted ones do, so who goes on asking stays out longer"},
		{m.refreshed, "each request begins the window anew, also a denied one, so who goes on asking stays out"},
		{m.thousandths, "it counts thousandths of a request in whole milliseconds, as nginx does"},
		{m.floored && !m.nearest, "it rounds down what is left of the window before"},
		{m.nearest, "it rounds what is left of the window before to the nearest whole number, so it can let one too many through"},
		{m.tick > 0, "its clock counts in steps of " + limiter.FormatPeriod(m.tick)},
		{m.phase != 0, "its windows begin " + m.phase.Round(time.Millisecond).String() + " later than whole periods since the epoch, by this machine's clock"},
		{m.ban > 0, "who was denied stays out for " + limiter.FormatPeriod(m.ban)},
	} {
		if p.is {
			all = append(all, p.text)
		}
	}
	return all
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
	for _, unusual := range []bool{
		m.anchored, m.tick > 0, m.counted, m.refreshed, m.floored && !m.anchored, m.nearest, m.thousandths, m.ban > 0, m.phase != 0,
	} {
		if unusual {
			order += 100
		}
	}
	return order
}

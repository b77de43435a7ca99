package probe

import (
	"slices"
	"strings"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/endpoint"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// conclude says what was found out, and what could not be told apart.
func (x *explorer) conclude(spent error) {
	if spent != nil && x.later == 0 {
		x.note("%s before all was told apart", spent)
	}
	queued := x.noteQueue()
	if x.shared {
		x.note("all subjects share one limit")
	}
	if len(x.explanations) == 0 {
		x.note("%d were admitted at once, and the next request was denied", x.burst.admitted)
		if n := len(x.events); n > 0 && !x.evidence.recovered() {
			x.note("nothing came back in %s; what comes back later was not waited for", span(x.events[n-1].Answered.Sub(x.events[0].Sent)))
			x.noteHint()
		}
		return
	}
	best := slices.MinFunc(x.explanations, func(a, b explanation) int { return plainness(&a.models[0]) - plainness(&b.models[0]) })
	m := &best.models[0]
	together := x.evidence.deniedOnlyTogether()
	if together {
		x.note("only requests that were under way together were denied: it may be a limit of concurrent requests, or one that " +
			"comes back faster than requests can be sent one by one")
	}
	if together && queued {
		return // no model here waits
	}
	if best.wrong > 0 {
		x.note("no algorithm known here explains all answers; the nearest one is %s, which does not explain %d of %d",
			m.limit, best.wrong, len(x.events))
		if best.wrong > 1+len(x.events)/100 || !best.round || together {
			return
		}
	}
	limit := m.limit
	x.d.Limit, x.d.Manner = &limit, m.Manner
	others := slices.ContainsFunc(x.explanations, func(e explanation) bool { return e.models[0].limit != limit })
	x.d.Exact = best.wrong == 0 && best.round && !others && !together && !x.provenWrong(m)
	if !best.round {
		x.note("the period can be from %s to %s", store.FormatPeriod(best.low), store.FormatPeriod(best.high))
	}
	if m.isAligned() && m.Tick == 0 {
		x.findPhase(m, best.wrong)
	}
	x.peculiarities(m)
	for i := range x.explanations {
		for _, other := range x.explanations[i].models {
			if other.limit != limit && len(x.d.Alternatives) < mostAlternatives && !slices.Contains(x.d.Alternatives, other.limit) {
				x.d.Alternatives = append(x.d.Alternatives, other.limit)
			}
		}
	}
	if others {
		x.note("%s", x.undecided())
	}
	if limit.Algorithm == store.TokenBucket {
		leaky := limit
		leaky.Algorithm = store.LeakyBucket
		x.d.Alternatives = append(x.d.Alternatives, leaky)
		x.note("a token bucket, GCRA, and a leaky bucket that turns away what does not fit answer alike")
	}
}

// noteHint notes what a denial said of the limit and of when to come again, which nobody waited for.
func (x *explorer) noteHint() {
	i := slices.IndexFunc(x.events, func(e Event) bool { return e.Outcome == endpoint.Denied })
	if i < 0 {
		return
	}
	e := &x.events[i]
	r := readHeader(e.Header, e.Answered, skewOf(e.Header, e.Sent, e.Answered))
	for k := range r.families {
		if l := r.families[k].tightest(); l != nil && l.count > 0 && l.window > 0 {
			x.note("its headers tell of %d in %s, which was not seen; hold it to that by --limit %d/%s", l.count,
				store.FormatPeriod(l.window), l.count, store.FormatPeriod(l.window))
			break
		}
	}
	if told := toldBack(x.events[i : i+1]); !told.IsZero() {
		wait := told.Sub(e.Answered)
		from := "its first denial says to come again in " + span(wait)
		if text := e.Header.Get("Retry-After"); text != "" {
			from = "its first denial says Retry-After: " + shown(text)
		}
		x.note("%s; to see that, give a --max-time of %s or more", from, span((5 * wait).Round(time.Second)))
	}
}

// provenWrong reports whether the audit by intervals is sure that a limit did not decide what was
// seen. It knows plain limits only.
func (x *explorer) provenWrong(m *model) bool {
	if len(m.peculiarities()) > 0 {
		return false
	}
	finding := proven(m.limit, keysOf(x.events, !x.shared), resolution)
	if finding.OverAdmitted+finding.UnderAdmitted == 0 {
		return false
	}
	x.note("the audit by intervals is sure that at least %d of the answers are not those of %s", finding.LeastOver+finding.LeastUnder, m.limit)
	return true
}

// noteQueue notes that admitted requests wait, as in the queue of a leaky bucket.
func (x *explorer) noteQueue() bool {
	var took []time.Duration
	for i := range x.burst.events {
		if e := &x.burst.events[i]; e.Outcome == endpoint.Allowed {
			took = append(took, e.Answered.Sub(e.Sent))
		}
	}
	if len(took) == 0 {
		return false
	}
	slices.Sort(took)
	shortest, longest := took[0], took[len(took)-1]
	// One request that took long says nothing, since a machine may be busy.
	if longest < 100*time.Millisecond || took[len(took)/2] < 10*shortest {
		return false
	}
	x.note("requests took from %s to %s until they were let through: they may wait in a queue, and what is found out is less exact",
		shortest.Round(time.Millisecond), longest.Round(time.Millisecond))
	if n := min(sequential, len(x.burst.events)); n > 2 {
		each := x.burst.events[n-1].Answered.Sub(x.burst.events[1].Answered) / time.Duration(n-2)
		x.note("sent one by one, a request was let through every %s", each.Round(time.Millisecond))
	}
	return true
}

// findPhase says when windows begin: in the middle of all phases that explain as much, and 0 if
// that is one of them.
func (x *explorer) findPhase(m *model, wrong int) {
	period := m.limit.Period
	earlier, later := x.evidence.reach(m, wrong)
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

// mostAlternatives is how many alternatives are told. More say no more.
const mostAlternatives = 8

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
		{m.Anchored, "its windows begin with a subject's first request, and follow each other without a gap"},
		{m.ChargesDenied, "denied requests count as admitted ones do, so who goes on asking stays out longer"},
		{m.Refreshed, "each request begins the window anew, also a denied one, so who goes on asking stays out"},
		{m.Thousandths, "it counts thousandths of a request in whole milliseconds, as nginx does"},
		{m.RoundsDown, "it rounds down what is left of the window before"},
		{m.RoundsNearest, "it rounds what is left of the window before to the nearest whole number, so it can let one too many through"},
		{m.Tick > 0, "its clock counts in steps of " + store.FormatPeriod(m.Tick)},
		{m.phase != 0, "its windows begin " + m.phase.Round(time.Millisecond).String() +
			" later than whole periods since the epoch, by this machine's clock"},
		{m.Ban > 0, "who was denied stays out for " + store.FormatPeriod(m.Ban)},
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
	case m.limit.Algorithm == store.TokenBucket:
		order = 0
	case m.limit.FromFirst:
		order = 20
	case m.limit.Algorithm == store.FixedWindow:
		order = 10
	case m.limit.Algorithm == store.SlidingLog:
		order = 30
	default:
		order = 40 + int(min(m.limit.Slices, 50))
	}
	for _, unusual := range []bool{
		m.Anchored, m.Tick > 0, m.ChargesDenied, m.Refreshed, m.floored() && !m.Anchored, m.RoundsNearest, m.Thousandths, m.Ban > 0, m.phase != 0,
	} {
		if unusual {
			order += 100
		}
	}
	return order
}

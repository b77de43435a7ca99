package probe

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/endpoint"
	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/cmd/internal/probe/explain"
	"github.com/limitctl/limitctl/cmd/internal/probe/headers"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// conclude notes what was found out, and what could not be told apart.
func (x *explorer) conclude(spent error) {
	if spent != nil && x.later == 0 {
		x.note("%s before everything was told apart", spent)
	}
	queued := x.noteQueue()
	if x.shared {
		x.note("all subjects share one limit")
	}
	if len(x.explanations) == 0 {
		x.note("%d were admitted at once, and the next request was denied", x.burst.admitted)
		if n := len(x.events); n > 0 && !x.evidence.Recovered() {
			x.note("nothing came back in %s, and the probe did not wait longer", span(x.events[n-1].Answered.Sub(x.events[0].Sent)))
			x.noteHint()
		}
		return
	}
	best := slices.MinFunc(x.explanations, func(a, b explain.Explanation) int {
		return explain.Plainness(&a.Models[0]) - explain.Plainness(&b.Models[0])
	})
	m := &best.Models[0]
	together := x.evidence.DeniedOnlyTogether()
	if together {
		x.note("only requests that were under way together were denied: it may be a limit of concurrent requests, or one that " +
			"comes back faster than requests can be sent one by one")
	}
	if together && queued {
		return // no model here makes a request wait
	}
	if best.Wrong > 0 {
		x.note("no algorithm known here explains all answers; the nearest one is %s, which does not explain %d of %d",
			m.Limit, best.Wrong, len(x.events))
		if best.Wrong > 1+len(x.events)/100 || !best.Round || together {
			x.noteSeen()
			return
		}
	}
	limit := m.Limit
	x.d.Limit, x.d.Behaviour = &limit, m.Behaviour
	others := slices.ContainsFunc(x.explanations, func(e explain.Explanation) bool { return e.Models[0].Limit != limit })
	x.d.Exact = best.Wrong == 0 && best.Round && !others && !together && !x.provenWrong(m)
	if !best.Round {
		x.note("the period can be from %s to %s", store.FormatPeriod(best.Low), store.FormatPeriod(best.High))
	}
	within := time.Duration(math.MaxInt64 / 4)
	if m.IsAligned() && m.Tick == 0 {
		if x.findPhase(m, best.Wrong); x.d.PhaseKnown && best.Wrong == 0 {
			within = x.d.PhaseWithin
		}
	}
	limit, _ = m.Named(within)
	x.peculiarities(m)
	for i := range x.explanations {
		for _, other := range x.explanations[i].Models {
			if other.Limit != m.Limit && len(x.d.Alternatives) < mostAlternatives && !slices.Contains(x.d.Alternatives, other.Limit) {
				x.d.Alternatives = append(x.d.Alternatives, other.Limit)
			}
		}
	}
	if others {
		x.note("%s", x.undecided())
	}
	if limit.Algorithm == store.TokenBucket && limit.Refill == 0 {
		leaky := limit
		leaky.Algorithm = store.LeakyBucket
		x.d.Alternatives = append(x.d.Alternatives, leaky)
		x.note("a token bucket, GCRA, and a leaky bucket that turns away what does not fit answer alike")
	}
}

// noteSeen notes what was seen of a limit that is not named, and what to do next.
func (x *explorer) noteSeen() {
	seen := fmt.Sprintf("seen: %s admitted at once", output.Plural(x.burst.admitted, "request"))
	var denied *explain.Event
	for i := range x.events {
		switch e := &x.events[i]; {
		case e.Subject != x.subject:
		case e.Outcome == endpoint.Denied && denied == nil:
			denied = e
		case e.Outcome == endpoint.Allowed && denied != nil:
			x.note("%s, and one again %s after the first denial; it may be several limits, or a kind that has no name here: "+
				"check a limit that you know with --limit, and several that must all have room with one --limit each", seen,
				span(e.Sent.Sub(denied.Sent)))
			return
		}
	}
}

// noteHint notes what a denial said about the limit and the retry time that the probe did not wait for.
func (x *explorer) noteHint() {
	i := slices.IndexFunc(x.events, func(e explain.Event) bool { return e.Outcome == endpoint.Denied })
	if i < 0 {
		return
	}
	e := &x.events[i]
	r := headers.Read(e.Header, e.Answered, headers.SkewOf(e.Header, e.Sent, e.Answered))
	for k := range r.Families {
		if l := r.Families[k].Tightest(); l != nil && l.Count > 0 && l.Window > 0 {
			x.note("its headers say %d in %s, which was not seen; check that with --limit %d/%s", l.Count,
				store.FormatPeriod(l.Window), l.Count, store.FormatPeriod(l.Window))
			break
		}
	}
	if told := toldBack(x.events[i : i+1]); !told.IsZero() {
		wait := told.Sub(e.Answered)
		from := "its first denial says to come again in " + span(wait)
		if text := e.Header.Get("Retry-After"); text != "" {
			from = "its first denial says Retry-After: " + headers.Shown(text)
		}
		x.note("%s; to see that, give a --max-time of %s or more", from, span((5 * wait).Round(time.Second)))
	}
}

// provenWrong reports whether the interval audit is sure that a limit did not decide what was seen. It knows plain
// limits only.
func (x *explorer) provenWrong(m *explain.Model) bool {
	limit, all := m.Named(0)
	if limit.Phase = 0; !all || m.Phase != 0 {
		return false
	}
	finding := explain.Proven(limit, explain.KeysOf(x.events, !x.shared), explain.Resolution)
	if finding.OverAdmitted+finding.UnderAdmitted == 0 {
		return false
	}
	x.note("the audit by intervals is sure that at least %d of the answers are not those of %s", finding.LeastOver+finding.LeastUnder,
		limit)
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
	if !areHeld(took) {
		return false
	}
	shortest, longest := slices.Min(took), slices.Max(took)
	x.note("requests took from %s to %s until they were let through: they may wait in a queue, and the findings are less exact",
		shortest.Round(time.Millisecond), longest.Round(time.Millisecond))
	if n := min(explain.Sequential, len(x.burst.events)); n > 2 {
		each := x.burst.events[n-1].Answered.Sub(x.burst.events[1].Answered) / time.Duration(n-2)
		x.note("sent one by one, a request was let through every %s", each.Round(time.Millisecond))
	}
	return true
}

// areHeld reports whether most requests took far longer than the shortest of these times. One slow request proves nothing,
// since a machine may be busy.
func areHeld(took []time.Duration) bool {
	if len(took) == 0 {
		return false
	}
	slices.Sort(took)
	return took[len(took)-1] >= 100*time.Millisecond && took[len(took)/2] >= 10*took[0]
}

// findPhase sets when windows begin: the middle of all phases that explain as much, or 0 if that is one of them.
func (x *explorer) findPhase(m *explain.Model, wrong int) {
	period := m.Limit.Period
	earlier, later := x.evidence.Reach(m, wrong)
	x.d.Phase, x.d.PhaseKnown, x.d.PhaseWithin = m.Phase, true, max(earlier, later)
	if m.Phase != 0 {
		x.d.Phase = (m.Phase + (later-earlier)/2 + period) % period
		x.d.PhaseWithin = (earlier + later) / 2
		m.Phase = x.d.Phase
	}
	if earlier+later > period/4 {
		x.d.PhaseKnown = false
	}
}

// mostAlternatives is the most alternatives in a note. More do not help.
const mostAlternatives = 8

// undecided names the families that were not told apart.
func (x *explorer) undecided() string {
	var names []string
	for i := range x.explanations {
		m := &x.explanations[i].Models[0]
		name := m.Limit.String()
		for _, text := range m.Peculiarities() {
			name += " (" + text + ")"
		}
		names = append(names, name)
	}
	return "not told apart: " + strings.Join(names, "; ")
}

// peculiarities notes what a limit cannot express about a model.
func (x *explorer) peculiarities(m *explain.Model) {
	for _, text := range m.Peculiarities() {
		x.note("%s", text)
	}
}

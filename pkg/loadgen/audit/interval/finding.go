package interval

import (
	"time"

	"github.com/limitctl/limitctl/pkg/loadgen/audit"
)

// Sensitivity is what an audit would have noticed for certain.
type Sensitivity struct {
	// LeastOver is the least number of units, admitted to one key above its limit, that would
	// have been found at some time. What is under way at once and the uncertainty of the
	// windows' phase make it more than 1. It is 0 if nothing was admitted.
	LeastOver int64
	// LeastUnder is the least number of units of a limit's count that would have been missed at
	// some time, had they been denied. It is 0 if nothing was denied for a reason, so that
	// under-admission was not tested.
	LeastUnder int64
	// PhaseKnown says that windows are aligned to the epoch, and begin Phase after whole periods
	// since then, give or take PhaseWithin: with other phases something would have been wrong. Of
	// a counter in slices it is the phase of the slices. It is not known where no phase explains
	// all answers.
	PhaseKnown         bool
	Phase, PhaseWithin time.Duration
	// ChargesDenied says that some denials are right only if denied requests are charged as
	// well. They are not called wrong, since nothing else speaks against that: they are
	// UnderIfFree units otherwise.
	ChargesDenied bool
	UnderIfFree   int64
	// RetryApart is by how much the waits that denials named were too long at most, if denials of one wait named instants that
	// go up and down: then clients come back apart, on purpose. Such waits are not called wrong, as long as none is too
	// short and some are as they should be. It is 0 if there are none.
	RetryApart time.Duration
}

// Sensitivity returns what the audit would have noticed so far. It is the best of all keys, and of groups of
// keys with windows of different length the first one's phase.
func (a *Auditor) Sensitivity() Sensitivity {
	var s Sensitivity
	for _, g := range a.groups {
		t := g.totals()
		s.LeastOver = leastOf(s.LeastOver, t.sensitivity.over)
		s.LeastUnder = leastOf(s.LeastUnder, t.sensitivity.under)
		if g.chargesDenied(&t) {
			s.ChargesDenied = true
			s.UnderIfFree += t.underFree
		}
		if g.retriesApart(&t) {
			s.RetryApart = max(s.RetryApart, time.Duration(t.longest)*time.Microsecond)
		}
		if !s.PhaseKnown {
			s.Phase, s.PhaseWithin, s.PhaseKnown = g.phase()
		}
	}
	return s
}

// Finding returns what was found so far. What is not judged yet is left out. OverAdmitted is what is certain under the
// best phase, and LeastOver under whichever phase.
func (a *Auditor) Finding() audit.Finding {
	f := a.finding
	for _, g := range a.groups {
		g.find(&f)
	}
	f.Fairness = audit.Fairness(f.Keys, f.Charged, f.ChargedSquares)
	return f
}

// find adds what was found of the keys of a group.
func (g *group) find(f *audit.Finding) {
	best := g.best()
	t := g.totals()
	underIsWrong := !g.chargesDenied(&t)
	f.OverAdmitted += t.over
	f.LeastOver += t.leastOver
	if underIsWrong {
		f.UnderAdmitted += t.underFree
		f.LeastUnder += t.leastUnder
	}
	f.PeakRatio = max(f.PeakRatio, t.peak)
	if t.late.Answers > 0 && !g.retriesApart(&t) {
		t.lies.Add(&audit.Lies{audit.RetryAfter: t.late})
		t.lied += t.late.Answers
	}
	f.Lies.Add(&t.lies)
	f.Lied += t.lied
	for _, k := range g.keys {
		f.Keys++
		if k.denied {
			f.KeysDenied++
		}
		over, under := k.wasOver, k.wasUnder
		if k.models != nil {
			over, under = over || k.models[best].over, under || k.models[best].most.under
		}
		if over {
			f.KeysOver++
		}
		if under && underIsWrong {
			f.KeysUnder++
		}
		x := float64(k.charged)
		f.Charged += x
		f.ChargedSquares += x * x
		f.WorstUnits = max(f.WorstUnits, k.span.worst)
		ratio := k.span.ratio(k.limit)
		if k.limit.Algorithm.HasBurst() && t.over == 0 {
			ratio = min(ratio, 1) // a float may say a little more
		}
		f.WorstRatio = max(f.WorstRatio, ratio)
	}
}

// retriesApart reports whether waits are too long on purpose. Of those that are always too long, a few are not for certain.
func (g *group) retriesApart(t *totals) bool {
	const fewest = 50
	return g.apart && t.onTime*fewest >= t.late.Answers && t.lies[audit.RetryAfter].Answers == 0
}

// phase returns the middle of the phases under which nothing is wrong, and how far they reach from
// it. It is known if they are at most half of all that there can be.
func (g *group) phase() (middle, within time.Duration, known bool) {
	var right []*phase
	for _, p := range g.phases {
		if g.wrong(p) == 0 {
			right = append(right, p)
		}
	}
	if len(right) == 0 || !aligned(g.limit) || g.own {
		return 0, 0, false
	}
	width := widthOf(g.limit)
	from, length := right[0].from, right[len(right)-1].to-right[0].from
	for i, p := range right[1:] { // the range may reach over the end of the width
		if without := width - (p.from - right[i].to); without < length {
			from, length = p.from, without
		}
	}
	middle = time.Duration((from+length/2+width)%width) * time.Microsecond
	return middle, time.Duration((length+1)/2) * time.Microsecond, length <= width/2
}

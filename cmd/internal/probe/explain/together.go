package explain

import (
	"slices"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/endpoint"
	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/loadgen/audit"
	"github.com/limitctl/limitctl/pkg/loadgen/audit/interval"
)

// Each returns the limits that are decided together, the first one first. Of a limit alone that is itself.
func (m Expectation) Each() []Expectation {
	if len(m.Beside) == 0 {
		return []Expectation{m}
	}
	first := m
	first.Beside = nil
	all := append([]Expectation{first}, m.Beside...)
	for i := range all {
		all[i].among, all[i].Resolution = true, m.Resolution
	}
	return all
}

// joined returns limits as one expectation.
func joined(all []Expectation) Expectation {
	m := all[0]
	if len(all) > 1 {
		m.among, m.Beside = false, slices.Clone(all[1:])
	}
	return m
}

// combine makes one judgement of those of each limit. What one limit denies is denied, so a denial is wrong only if all have
// room, and an admission is wrong if one of them has none.
func combine(each []*Judgement) *Judgement {
	j := &Judgement{Each: each, Views: slices.Clone(each[0].Views), Peak: each[0].Peak}
	for i := range j.Views {
		v := &j.Views[i]
		for _, other := range each[1:] {
			o := &other.Views[i]
			v.Judged = v.Judged && o.Judged
			v.Over, v.Under = v.Over || o.Over, v.Under && o.Under
			v.Remaining[0], v.Remaining[1] = min(v.Remaining[0], o.Remaining[0]), min(v.Remaining[1], o.Remaining[1])
			v.Fits[0], v.Fits[1] = Latest(v.Fits[0], o.Fits[0]), Latest(v.Fits[1], o.Fits[1])
			v.More, v.Unused = earlier(v.More, o.More), Latest(v.Unused, o.Unused)
		}
		if v.Judged && v.Over {
			j.Over += v.Cost
		}
		if v.Judged && v.Under {
			j.Under += v.Cost
		}
	}
	return j
}

// MayDeny returns which of several limits may have denied the request of a view: the others surely had room.
func (j *Judgement) MayDeny(view int) (limits []int) {
	for i, one := range j.Each {
		if !one.Views[view].Under {
			limits = append(limits, i)
		}
	}
	return limits
}

// fitting looks for the phases and the behaviours by which several limits explain the events together.
type fitting struct {
	keys  []Key
	all   []Expectation
	each  [][]*Judgement // of each limit, of each key
	wrong int64
}

func (f *fitting) judge(m *Expectation) []*Judgement {
	judged := make([]*Judgement, len(f.keys))
	for i := range f.keys {
		judged[i] = m.Judge(f.keys[i].Events, f.keys[i].Fresh)
	}
	return judged
}

// together returns the judgements of the keys by all limits.
func (f *fitting) together() (judged []*Judgement, wrong int64) {
	judged = make([]*Judgement, len(f.keys))
	for i := range f.keys {
		each := make([]*Judgement, len(f.all))
		for n := range f.all {
			each[n] = f.each[n][i]
		}
		judged[i] = combine(each)
		wrong += judged[i].Over + judged[i].Under
	}
	return judged, wrong
}

// try replaces a limit's expectation if less is wrong by it.
func (f *fitting) try(n int, m Expectation) {
	before, expected := f.each[n], f.all[n]
	f.each[n], f.all[n] = f.judge(&m), m
	if _, wrong := f.together(); wrong < f.wrong {
		f.wrong = wrong
		return
	}
	f.each[n], f.all[n] = before, expected
}

// turns returns the phases of windows of a limit by which one ended when keys were admitted again that no other limit denied.
func (f *fitting) turns(n int) (phases []time.Duration) {
	period := f.all[n].Limit.Period
	add := func(t time.Time) {
		phase := phaseOf(t, period)
		if len(phases) < mostPhases && !slices.ContainsFunc(phases, func(p time.Duration) bool { return (p - phase).Abs() < Resolution }) {
			phases = append(phases, phase)
		}
	}
	for i := range f.keys {
		events := f.keys[i].Events
		for k := 1; k < len(events); k++ {
			if events[k-1].Outcome != endpoint.Denied || events[k].Outcome != endpoint.Allowed || f.mayDeny(n, i, k-1) {
				continue
			}
			denied, admitted := events[k-1].Answered, events[k].Sent
			add(denied.Add(admitted.Sub(denied) / 2))
			add(admitted)
			add(denied)
		}
	}
	return phases
}

// mayDeny reports whether another limit than one may have denied a request.
func (f *fitting) mayDeny(besides, key, view int) bool {
	for n := range f.all {
		if n != besides && !f.each[n][key].Views[view].Under {
			return true
		}
	}
	return false
}

// improve tries the phases and the behaviours that one of the limits can have.
func (f *fitting) improve(n int) {
	m := f.all[n]
	period := m.Limit.Period
	phase := func(by time.Duration) {
		if f.wrong > 0 {
			other := m
			other.Phase = (by%period + period) % period
			f.try(n, other)
		}
	}
	switch {
	case m.PhaseWithin > 0:
		for by := time.Duration(1); by <= phasesGiven; by++ {
			phase(m.Phase + m.PhaseWithin*by/phasesGiven)
			phase(m.Phase - m.PhaseWithin*by/phasesGiven)
		}
	case m.Limit.Algorithm == store.FixedWindow && m.IsAligned():
		for _, at := range f.turns(n) {
			phase(at)
		}
	case m.Limit.Algorithm == store.SlidingCounter && m.IsAligned():
		for k := range time.Duration(phasesTried) {
			phase(period * k / phasesTried)
		}
		for step := period / phasesTried / 2; step >= Resolution && f.wrong > 0; step /= 2 {
			middle := f.all[n].Phase
			phase(middle - step)
			phase(middle + step)
		}
	}
	if m.Behaviour != (Behaviour{}) {
		return
	}
	for _, by := range behavioursOf(&m.Limit) {
		if f.wrong > 0 && !by.ChargesDenied {
			f.try(n, m.WithBehaviour(by))
		}
	}
}

// fitTogether is as [Fit] for several limits. Denied requests count in none of them, or in one of them if another denies, or in
// all.
func fitTogether(m Expectation, keys []Key) (best Expectation, judgements []*Judgement) {
	least := int64(-1)
	all := m.Each()
	for mode := -1; mode <= len(all); mode++ {
		f := fitting{keys: keys, all: slices.Clone(all)}
		for n := range f.all {
			f.all[n].Before, f.all[n].Charges = mode == n, mode == len(all)
			f.each = append(f.each, f.judge(&f.all[n]))
		}
		_, f.wrong = f.together()
		const rounds = 2
		for range rounds {
			for n := range f.all {
				if f.wrong > 0 {
					f.improve(n)
				}
			}
		}
		if least < 0 || f.wrong == 0 { // if none explains everything, the usual way to count is the best to report
			least = f.wrong
			best = joined(f.all)
			judgements, _ = f.together()
		}
		if least == 0 {
			break
		}
	}
	return best, judgements
}

// ProvenTogether is as [Proven] for several limits that are decided together. A denial tells of a limit only if the
// other ones surely had room, and may have been charged by it if not. Only denials for which the others had room by the expectation are
// looked at closely.
func (m Expectation) ProvenTogether(limits []store.Limit, keys []Key) (all audit.Finding) {
	each, resolution := m.Each(), m.Resolution
	spared := make([]map[*Event]bool, len(limits)) // the denials for which a limit surely had room
	for i := range limits {
		spared[i] = make(map[*Event]bool)
		each[i].Charges, each[i].Before = false, false
		for k := range keys {
			looks, judged := 0, each[i].Judge(keys[k].Events, keys[k].Fresh)
			for n, e := range keys[k].Events {
				if e.Outcome != endpoint.Denied || !judged.Views[n].Under || looks == mostLooks {
					continue
				}
				looks++
				one := Key{Subject: keys[k].Subject, Events: keys[k].Events[:n+1], Fresh: keys[k].Fresh}
				spared[i][e] = auditAmong(limits[i], []Key{one}, resolution, func(d *Event) bool { return d == e }, false).LeastUnder > 0
			}
		}
	}
	for i := range limits {
		one := auditAmong(limits[i], keys, resolution, func(e *Event) bool {
			for other := range limits {
				if other != i && !spared[other][e] {
					return false
				}
			}
			return true
		}, true)
		all.LeastOver += one.LeastOver
		all.LeastUnder = max(all.LeastUnder, one.LeastUnder)
	}
	all.OverAdmitted, all.UnderAdmitted = all.LeastOver, all.LeastUnder
	return all
}

// mostLooks is the most denials of a key that are looked at closely.
const mostLooks = 40

// auditAmong audits one of several limits. isOwn reports whether a denial is its own. closely: each phase that windows can have is
// looked at alone.
func auditAmong(limit store.Limit, keys []Key, resolution time.Duration, isOwn func(*Event) bool, closely bool) audit.Finding {
	phase, skew := limit.Phase, time.Duration(-1)
	if phase != 0 {
		skew = limit.PhaseWithin()
	}
	limit.Phase = 0
	around := func(phase, skew time.Duration) audit.Finding {
		return auditAround(limit, keys, resolution, phase, skew, isOwn)
	}
	finding := around(phase, skew)
	m := Model{Limit: limit}
	if !closely || finding.LeastOver+finding.LeastUnder > 0 || skew >= 0 || !m.IsAligned() {
		return finding
	}
	return provenByPhase(around, resolution, 0, limit.Period/2)
}

// auditAround audits windows that begin at most skew before or after a phase; a negative skew is any phase.
func auditAround(
	limit store.Limit, keys []Key, resolution, phase, skew time.Duration, isOwn func(*Event) bool,
) audit.Finding {
	auditor := interval.New(interval.Options{Resolution: 2 * resolution, Skew: skew})
	for i := range keys {
		auditor.SetLimit(uint32(i), limit)
		for _, e := range keys[i].Events {
			answer := answers[e.Outcome]
			if answer == interval.Denied && !isOwn(e) {
				answer = interval.Uncertain
			}
			if e.Cost > 0 {
				auditor.Observe(interval.Observation{Key: uint32(i), Sent: store.InstantOf(e.Sent.Add(-phase)),
					Answered: store.InstantOf(e.Answered.Add(-phase)), Cost: e.Cost, Answer: answer})
			}
		}
	}
	auditor.Settle(1 << 62)
	return auditor.Finding()
}

package explain

import (
	"cmp"
	"slices"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/endpoint"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Resolution is the resolution of limiters' clocks: seldom finer than a millisecond.
const Resolution = time.Millisecond

// Expectation is the limit that an endpoint should keep, and how it counts. With the zero Behaviour it counts as
// limitctl does.
type Expectation struct {
	Model
	// Charges: a denied request counts, too.
	Charges bool
	// Resolution is how exactly times are known.
	Resolution time.Duration
	// PhaseWithin is by how much windows can begin before or after a phase that is given.
	PhaseWithin time.Duration
	// Beside are limits that are decided together with this one: only what fits all of them is admitted.
	Beside []Expectation
	// Before: of several limits, this one counts what it lets in and another one denies.
	Before bool
	// among: another limit may have denied what was denied.
	among bool
}

// WithBehaviour returns the expectation with another behaviour.
func (m Expectation) WithBehaviour(by Behaviour) Expectation {
	m.Behaviour, m.Charges = by, by.ChargesDenied || by.Refreshed
	return m
}

// View is what must be true of one answer if the endpoint keeps the limit.
type View struct {
	*Event
	// Judged: the state of the key was known when the request was decided.
	Judged bool
	// Over: it was admitted and nothing was left. Under: it was denied and enough was left.
	Over, Under bool
	// Overlaps: other requests of the key were under way at the same time.
	Overlaps bool
	// Remaining is the least and the most that can be left after it.
	Remaining [2]int64
	// Fits are the earliest and the latest instant at which the same request fits again.
	Fits [2]time.Time
	// More is the earliest instant at which more is left, and Unused the latest at which everything is unused.
	More, Unused time.Time
}

// Judgement is the result of comparing the events of one subject with an expectation.
type Judgement struct {
	Views []View
	// Over and Under are the units that were admitted and denied wrongly.
	Over, Under int64
	// Peak is a lower bound of the most units in use, with everything that was admitted.
	Peak int64
	// Each are the judgements by each of several limits that are decided together, of which this one is made.
	Each []*Judgement
}

// The instant of the endpoint's decision is not known, only that it lies between sending and answer. So a key is
// followed on two tracks: one counts each request as early as possible, the other as late as possible. The usage
// lies between those of the two.
type track struct {
	usage
	// pending are charges that may be later than the next request, and so are not yet part of the usage.
	pending []charge
}

// charge is a request that was counted or denied.
type charge struct {
	at           store.Instant
	cost, admits int64
}

// tracks follow one key under a model. anew: a denied request begins a new window. before and among are those of the
// expectation.
type tracks struct {
	Model
	anew, before, among bool

	early, late track
}

// Judge compares the events of one subject with an expectation. If the usage of the key before is unknown, it judges
// nothing until that usage must be over.
func (m Expectation) Judge(events []*Event, fresh bool) *Judgement {
	if len(m.Beside) > 0 {
		var each []*Judgement
		for _, one := range m.Each() {
			each = append(each, one.Judge(events, fresh))
		}
		return combine(each)
	}
	j := &Judgement{Views: make([]View, 0, len(events))}
	t := tracks{Model: m.Model, before: m.Before, among: m.among}
	if t.anew = m.Charges && m.Behaviour == (Behaviour{}) && m.Limit.FromFirst; m.Charges && m.Behaviour == (Behaviour{}) {
		t.ChargesDenied = !t.anew
	}
	var all store.State // with everything charged, as late as possible
	known, floor := store.Instant(0), store.Instant(0)
	if !fresh && len(events) > 0 {
		var full store.State
		begin := store.InstantOf(events[0].Sent)
		full.Charge(m.Limit, m.Limit.Capacity(), begin)
		known = full.UnusedAt(begin) + store.Instant(m.Limit.Period/time.Microsecond)
	}
	overlapping := overlaps(events)
	for i, e := range events {
		v := View{Event: e, Judged: fresh || store.InstantOf(e.Sent) > known}
		v.Overlaps = overlapping[i]
		first, last := store.InstantOf(e.Sent.Add(-m.Resolution)), store.InstantOf(e.Answered.Add(m.Resolution))
		if i > 0 && !e.Sent.Before(events[i-1].Answered) {
			first = max(first, min(floor, last)) // it was not decided before the request before it
		}
		if e.Outcome == endpoint.Allowed && m.Behaviour == (Behaviour{}) {
			now := last
			if m.Limit.Algorithm == store.FixedWindow { // it fills the window that began
				now = first
			}
			all.Charge(m.Limit, e.Cost, t.at(&t.early.usage, now))
			j.Peak = max(j.Peak, min(all.Used(t.at(&t.early.usage, first)), all.Used(t.at(&t.early.usage, last))))
		}
		floor = t.decide(&v, first, last)
		if v.Judged && v.Over {
			j.Over += e.Cost
		}
		if v.Judged && v.Under {
			j.Under += e.Cost
		}
		if e.Outcome == endpoint.Allowed && m.Behaviour != (Behaviour{}) {
			j.Peak = max(j.Peak, m.Limit.Capacity()-t.room(&t.early.usage, floor))
		}
		t.look(&v, first, last)
		j.Views = append(j.Views, v)
	}
	return j
}

// overlaps reports for each event whether another one was under way at the same time, even many places away: while
// one request waits, the other workers send several.
func overlaps(events []*Event) []bool {
	overlapping := make([]bool, len(events))
	var answered time.Time // the latest answer to an earlier event
	for i, e := range events {
		overlapping[i] = e.Sent.Before(answered)
		answered = Latest(answered, e.Answered)
	}
	var sent time.Time // when the first of the later events was sent
	for i, e := range slices.Backward(events) {
		overlapping[i] = overlapping[i] || i+1 < len(events) && sent.Before(e.Answered)
		sent = earlier(sent, e.Sent)
	}
	return overlapping
}

// settle makes the charges before an instant part of the usage.
func (t *tracks) settle(before store.Instant) {
	late := &t.late
	for len(late.pending) > 0 && late.pending[0].at <= before {
		t.count(&late.usage, late.pending[0])
		late.pending = late.pending[1:]
	}
}

func (t *tracks) count(u *usage, c charge) {
	if !t.isPlain() {
		c.at = max(c.at, u.last)
	}
	if t.before && c.admits == 0 && t.room(u, c.at) >= c.cost {
		c.admits = c.cost
	}
	t.take(u, c.cost, c.admits, c.at)
	if t.anew && c.admits == 0 {
		u.state = store.State{}
		u.state.Charge(t.Limit, t.Limit.Capacity(), t.at(u, c.at))
	}
}

// used returns the usage at an instant, with everything that may have been charged before.
func (t *tracks) used(of *track, now store.Instant) int64 {
	used := t.Limit.Capacity() - t.room(&of.usage, now)
	for _, c := range of.pending {
		switch {
		case c.admits > 0 || t.ChargesDenied || t.before:
			used += c.cost
		case t.Refreshed, t.anew:
			used += t.Limit.Capacity()
		}
	}
	return used
}

// end returns the later track with everything charged.
func (t *tracks) end() *track {
	if len(t.late.pending) == 0 {
		return &t.late
	}
	end := track{usage: t.late.usage.clone()}
	for _, c := range t.late.pending {
		t.count(&end.usage, c)
	}
	return &end
}

// decide judges whether the answer is possible, and continues with it. It returns the earliest instant of the
// decision.
func (t *tracks) decide(v *View, first, last store.Instant) (earliest store.Instant) {
	earliest = first
	capacity := t.Limit.Capacity()
	t.settle(first)
	atEnd := t.end()
	least := min(t.used(&t.early, last), t.used(atEnd, last), t.used(&t.late, first))
	most := max(t.used(&t.late, first), t.used(&t.early, first))
	fits := t.when(&t.early.usage, v.Cost, first)
	charged := int64(0)
	switch v.Outcome {
	case endpoint.Allowed:
		if v.Over = least+v.Cost > capacity; v.Over {
			least, most = capacity, capacity
			break // a mistake is not charged, so that it counts once
		}
		most, charged = min(most, capacity-v.Cost), v.Cost
		switch windows := t.Limit.Algorithm == store.FixedWindow; {
		case !windows && t.Limit.Refill == 0 || t.used(atEnd, last)+v.Cost <= capacity:
		case windows && t.IsAligned(): // some before it belong to the window before, no more than it needs
			t.late = track{}
			if before := capacity - v.Cost; before > 0 {
				t.take(&t.late.usage, before, before, last)
			}
		default:
			t.late = track{usage: t.early.usage.clone()} // its window had ended before
		}
		earliest = min(max(first, fits), last)
		t.count(&t.early.usage, charge{earliest, v.Cost, v.Cost})
		t.late.pending = append(t.late.pending, charge{last, v.Cost, v.Cost})
	case endpoint.Denied:
		if v.Under = most+v.Cost <= capacity; !v.Under && !t.among {
			least = max(least, capacity-v.Cost+1)
		}
		t.count(&t.early.usage, charge{at: first, cost: v.Cost})
		t.late.pending = append(t.late.pending, charge{at: last, cost: v.Cost})
	default: // it may have been charged
		t.late.pending = append(t.late.pending, charge{last, v.Cost, v.Cost})
	}
	v.Remaining = [2]int64{max(0, capacity-most-charged), max(0, capacity-least-charged)}
	return earliest
}

// look notes what is true after an answer.
func (t *tracks) look(v *View, first, last store.Instant) {
	capacity := t.Limit.Capacity()
	for _, of := range []*track{{usage: t.early.usage}, t.end()} {
		for _, now := range []store.Instant{first, last} {
			u := &of.usage
			fits := t.when(u, v.Cost, now).Time()
			v.Fits[0], v.Fits[1] = earlier(v.Fits[0], fits), Latest(v.Fits[1], fits)
			unused := t.when(u, capacity, now).Time()
			v.Unused = Latest(v.Unused, unused)
			more := t.when(u, min(t.room(u, now)+1, capacity), now)
			if used := u.state.Used(t.at(u, now)); used > capacity { // denied requests were charged, too
				more = t.retry(u, capacity-used+1, now)
			}
			v.More = earlier(v.More, more.Time())
		}
	}
}

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

// Latest returns the later of two instants.
func Latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// Key has the events of one subject, in a possible order of their decisions.
type Key struct {
	Subject string
	Events  []*Event
	// Fresh: the subject was not used before.
	Fresh bool
}

// KeysOf groups the events by which the limit is judged by subject. canChoose says that the requests name the subject;
// then each subject is fresh. Otherwise there is one key.
func KeysOf(events []Event, canChoose bool) []Key {
	var keys []Key
	at := make(map[string]int)
	for i := range events {
		e := &events[i]
		if e.Trial != "" {
			continue
		}
		subject := e.Subject
		if !canChoose {
			subject = ""
		}
		place, known := at[subject]
		if !known {
			place = len(keys)
			at[subject] = place
			keys = append(keys, Key{Subject: subject, Fresh: canChoose})
		}
		keys[place].Events = append(keys[place].Events, e)
	}
	for i := range keys {
		keys[i].Events = InOrder(keys[i].Events)
	}
	return keys
}

// InOrder sorts events that were under way at the same time: admitted ones come first, in the order of their answers, since
// that order is the easiest to explain.
func InOrder(events []*Event) []*Event {
	slices.SortStableFunc(events, func(a, b *Event) int { return a.Sent.Compare(b.Sent) })
	for begin := 0; begin < len(events); {
		end, until := begin+1, events[begin].Answered
		for end < len(events) && events[end].Sent.Before(until) {
			until = Latest(until, events[end].Answered)
			end++
		}
		slices.SortStableFunc(events[begin:end], func(a, b *Event) int {
			return cmp.Or(int(a.Outcome)-int(b.Outcome), a.Answered.Compare(b.Answered))
		})
		begin = end
	}
	return events
}

// Prompt returns the keys as if each request was decided no later after it was sent than the slowest denial was answered:
// what takes longer waits in a queue, or for a service, after it was let in. changed says that this makes a difference.
func Prompt(keys []Key) (prompt []Key, changed bool) {
	longest := time.Duration(-1)
	for i := range keys {
		for _, e := range keys[i].Events {
			if e.Outcome == endpoint.Denied {
				longest = max(longest, e.Answered.Sub(e.Sent))
			}
		}
	}
	if longest < 0 {
		return keys, false
	}
	prompt = slices.Clone(keys)
	for i := range keys {
		prompt[i].Events = slices.Clone(keys[i].Events)
		for n, e := range keys[i].Events {
			if e.Answered.Sub(e.Sent) > longest {
				at := *e
				at.Answered, changed = e.Sent.Add(longest), true
				prompt[i].Events[n] = &at
			}
		}
		prompt[i].Events = InOrder(prompt[i].Events)
	}
	return prompt, changed
}

// mostPhases bounds the phases that are tried.
const mostPhases = 24

// Fit finds the phase and the behaviour by which the limit explains the events best. It keeps a known behaviour.
func Fit(m Expectation, keys []Key, phaseKnown bool) (best Expectation, judgements []*Judgement) {
	if len(m.Beside) > 0 {
		return fitTogether(m, keys)
	}
	least := int64(-1)
	explains := func(candidate Expectation) bool {
		wrong, judged := int64(0), make([]*Judgement, len(keys))
		for i := range keys {
			judged[i] = candidate.Judge(keys[i].Events, keys[i].Fresh)
			wrong += judged[i].Over + judged[i].Under
		}
		if least < 0 || wrong < least {
			least, best, judgements = wrong, candidate, judged
		}
		return wrong == 0
	}
	if m.Behaviour != (Behaviour{}) {
		if by := m.Behaviour; !explains(m) && by.Anchored && by.RoundsDown && !by.ChargesDenied { // no word says whether denials count
			by.ChargesDenied = true
			explains(m.WithBehaviour(by))
		}
		return best, judgements
	}
	phases := []time.Duration{m.Phase}
	for n := time.Duration(1); n <= phasesGiven && m.PhaseWithin > 0; n++ {
		by := m.PhaseWithin * n / phasesGiven
		phases = append(phases, m.Phase+by, (m.Phase-by+m.Limit.Period)%m.Limit.Period)
	}
	if m.Limit.Algorithm == store.FixedWindow && !m.Limit.FromFirst {
		phases = append(phases, phasesOf(keys, m.Limit.Period, phaseKnown)...)
	}
	for _, charges := range []bool{false, true} {
		for _, phase := range phases {
			candidate := m
			candidate.Phase, candidate.Charges = phase, charges
			if explains(candidate) {
				return best, judgements
			}
		}
	}
	if m.Limit.Algorithm == store.SlidingCounter && !phaseKnown && searchPhase(m, explains, func() (int64, time.Duration) {
		return least, best.Phase
	}) {
		return best, judgements
	}
	plain, plainJudgements := best, judgements
	for _, by := range behavioursOf(&m.Limit) {
		if explains(m.WithBehaviour(by)) {
			return best, judgements
		}
	}
	return plain, plainJudgements // none explains everything, so the usual behaviour is the best to report
}

// searchPhase looks for the phase of a counter whose windows begin at any instant, ever finer around the best one, and
// reports whether one explains all events. found returns the least that is wrong so far, and the phase with it.
func searchPhase(m Expectation, explains func(Expectation) bool, found func() (int64, time.Duration)) bool {
	period := m.Limit.Period
	try := func(phase time.Duration) bool {
		candidate := m
		candidate.Phase = ((phase % period) + period) % period
		return explains(candidate)
	}
	for n := range phasesTried {
		if try(period * time.Duration(n) / phasesTried) {
			return true
		}
	}
	for step := period / phasesTried / 2; step >= Resolution; step /= 2 {
		_, middle := found()
		for _, by := range []time.Duration{-step, step} {
			if try(middle + by) {
				return true
			}
		}
	}
	return false
}

// Widened returns the judgements of a fit that explains all events, with every bound as wide as all phases of the
// windows make it that explain all events as well: which one of them is the right one is not known.
func (m Expectation) Widened(keys []Key, judged []*Judgement) []*Judgement {
	wide := make([]*Judgement, len(judged))
	for i, j := range judged {
		wide[i] = j.clone()
	}
	for n, one := range m.Each() {
		if one.IsAligned() && one.Tick == 0 && one.Behaviour == (Behaviour{}) {
			m.widen(n, keys, wide)
		}
	}
	return wide
}

// clone returns a judgement whose bounds can be changed.
func (j *Judgement) clone() *Judgement {
	c := *j
	c.Views, c.Each = slices.Clone(j.Views), nil
	for _, one := range j.Each {
		c.Each = append(c.Each, one.clone())
	}
	return &c
}

// widen widens the bounds by the phases of one of the limits.
func (m Expectation) widen(n int, keys []Key, wide []*Judgement) {
	all := m.Each()
	phase, period := all[n].Phase, all[n].Limit.Period
	explains := func(by time.Duration) bool {
		all[n].Phase = ((phase+by)%period + period) % period
		other, under := joined(all), make([]*Judgement, len(keys))
		for i := range keys {
			if under[i] = other.Judge(keys[i].Events, keys[i].Fresh); under[i].Over+under[i].Under > 0 {
				return false
			}
		}
		for i := range wide {
			wide[i].include(under[i])
		}
		return true
	}
	for n := range phasesTried {
		explains(period * time.Duration(n) / phasesTried)
	}
	for _, direction := range []time.Duration{-1, 1} {
		good, bad := time.Duration(0), Resolution
		for bad < period/2 && explains(direction*bad) {
			good, bad = bad, 2*bad
		}
		for bad-good > Resolution/2 {
			if middle := (good + (bad-good)/2).Truncate(time.Microsecond); explains(direction * middle) {
				good = middle
			} else {
				bad = middle
			}
		}
	}
}

// phasesGiven is how many phases are tried on each side of one that is given.
const phasesGiven = 8

// phasesTried is how many phases, at equal distances, are tried beside the one that was found.
const phasesTried = 32

// include widens the bounds of each view by those of the same view of another judgement.
func (j *Judgement) include(other *Judgement) {
	j.Peak = min(j.Peak, other.Peak)
	for i := range j.Views {
		v, o := &j.Views[i], &other.Views[i]
		v.Remaining[0], v.Remaining[1] = min(v.Remaining[0], o.Remaining[0]), max(v.Remaining[1], o.Remaining[1])
		v.Fits[0], v.Fits[1] = earlier(v.Fits[0], o.Fits[0]), Latest(v.Fits[1], o.Fits[1])
		v.More, v.Unused = earlier(v.More, o.More), Latest(v.Unused, o.Unused)
		v.Under = v.Under && o.Under
	}
	for i, one := range j.Each {
		one.include(other.Each[i])
	}
}

// phasesOf returns possible phases of windows of a period, from the instants at which keys were admitted again.
func phasesOf(keys []Key, period time.Duration, known bool) (phases []time.Duration) {
	if known {
		return nil
	}
	add := func(t time.Time) {
		if phase := time.Duration(t.UnixMicro()%period.Microseconds()) * time.Microsecond; len(phases) < mostPhases {
			phases = append(phases, phase)
		}
	}
	for i := range keys {
		events := keys[i].Events
		for k := 1; k < len(events); k++ {
			if events[k-1].Outcome == endpoint.Denied && events[k].Outcome == endpoint.Allowed {
				add(events[k].Sent)
				add(events[k-1].Answered)
				add(events[k-1].Answered.Add(events[k].Sent.Sub(events[k-1].Answered) / 2))
			}
		}
	}
	return phases
}

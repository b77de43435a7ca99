package explain

import (
	"slices"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/endpoint"
	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/loadgen/audit"
	"github.com/limitctl/limitctl/pkg/loadgen/audit/interval"
)

// Resolution is how exactly the clocks of limiters are read: seldom finer than a millisecond.
const Resolution = time.Millisecond

// Standard is what an endpoint is held to: it says how a limit counts.
type Standard struct {
	Limit store.Limit // normalized
	// Phase is by how much windows begin later than whole periods since the epoch.
	Phase time.Duration
	// Charges: a denied request counts, too.
	Charges bool
	// Resolution is how exactly times are known.
	Resolution time.Duration
	// By is how the endpoint counts, if that is not how limits count here. It is judged by the
	// model that discovery has of it then, which knows instants less well.
	By Manner
}

// WithManner returns the standard with another manner.
func (m Standard) WithManner(by Manner) Standard {
	m.By, m.Charges = by, by.ChargesDenied || by.Refreshed
	return m
}

// View is what must be true of one answer, if the endpoint keeps the limit.
type View struct {
	*Event
	// Judged: nothing about the key was open when the request was decided.
	Judged bool
	// Over: it was admitted and nothing was left; under: it was denied and there was enough left.
	Over, Under bool
	// Overlaps: others of the key were under way at the same time.
	Overlaps bool
	// Remaining is the least and the most that can be left after it.
	Remaining [2]int64
	// Fits is when the same request fits again, at the earliest and the latest.
	Fits [2]time.Time
	// More is when there is more left at the earliest, and unused when all is unused at the latest.
	More, Unused time.Time
}

// Judgement is what came of holding the events of one subject to a standard.
type Judgement struct {
	standard Standard
	Views    []View
	// Over and under are the units that were admitted and denied wrongly.
	Over, Under int64
	// Peak is the most that was in use with all that was admitted, at the least.
	Peak int64
}

// When exactly the endpoint decided is not known, only that it was between sending and answer.
// So a key is followed on two tracks: on one each request was counted as early as it can have
// been, on the other as late. What is in use lies between what is in use on the two.
type track struct {
	state store.State
	// pending are charges that may be later than the next request, and so are not part of the
	// state yet.
	pending []charge
}

type charge struct {
	at   store.Instant
	cost int64
	anew bool // it makes a window begin anew
}

// Judge holds the events of one subject to a standard. If nobody knows what the key had in use
// before, nothing is judged until that must be over.
func (m Standard) Judge(events []*Event, fresh bool) *Judgement {
	if m.By != (Manner{}) {
		peculiar := Model{Limit: m.Limit, Phase: m.Phase, Manner: m.By}
		return peculiar.judgeAs(m, events)
	}
	j := &Judgement{standard: m, Views: make([]View, 0, len(events))}
	var early, late track
	var all store.State // with everything charged, as late as it can be
	known, floor := store.Instant(0), store.Instant(0)
	if !fresh && len(events) > 0 {
		var full store.State
		full.Charge(m.Limit, m.Limit.Capacity(), m.instant(events[0].Sent))
		known = full.UnusedAt(m.instant(events[0].Sent)) + store.Instant(m.Limit.Period/time.Microsecond)
	}
	for i, e := range events {
		v := View{Event: e, Judged: fresh || m.instant(e.Sent) > known}
		v.Overlaps = i > 0 && e.Sent.Before(events[i-1].Answered) || i+1 < len(events) && events[i+1].Sent.Before(e.Answered)
		first, last := m.instant(e.Sent.Add(-m.Resolution)), m.instant(e.Answered.Add(m.Resolution))
		if i > 0 && !e.Sent.Before(events[i-1].Answered) {
			first = max(first, min(floor, last)) // it was not decided before the one before it
		}
		if e.Outcome == endpoint.Allowed {
			now := last
			if m.Limit.Algorithm == store.FixedWindow { // the window that began is the one to fill
				now = first
			}
			all.Charge(m.Limit, e.Cost, now)
			j.Peak = max(j.Peak, min(all.Used(first), all.Used(last)))
		}
		floor = m.decide(&early, &late, &v, first, last)
		if v.Judged && v.Over {
			j.Over += e.Cost
		}
		if v.Judged && v.Under {
			j.Under += e.Cost
		}
		m.look(&early, &late, &v, first, last)
		j.Views = append(j.Views, v)
	}
	return j
}

// instant is a time as the limiter's windows count it.
func (m Standard) instant(t time.Time) store.Instant { return store.InstantOf(t.Add(-m.Phase)) }

// back is the time of an instant.
func (m Standard) back(i store.Instant) time.Time { return i.Time().Add(m.Phase) }

// settle makes the charges before an instant part of the state.
func (m Standard) settle(t *track, before store.Instant) {
	for len(t.pending) > 0 && t.pending[0].at <= before {
		m.apply(&t.state, t.pending[0])
		t.pending = t.pending[1:]
	}
}

func (m Standard) apply(s *store.State, c charge) {
	if c.anew {
		*s = store.State{}
	}
	s.Charge(m.Limit, c.cost, c.at)
}

// used is what is in use at an instant, with all that may have been charged before.
func (t *track) used(now store.Instant) int64 {
	used := t.state.Used(now)
	for i := range t.pending {
		used += t.pending[i].cost
	}
	return used
}

// end is the state with everything charged.
func (m Standard) end(t *track) *store.State {
	if len(t.pending) == 0 {
		return &t.state
	}
	s := t.state.Clone()
	for _, c := range t.pending {
		m.apply(s, c)
	}
	return s
}

// decide says whether the answer can have been given, and goes on with it. It returns when it was decided at the
// earliest.
func (m Standard) decide(early, late *track, v *View, first, last store.Instant) (earliest store.Instant) {
	earliest = first
	capacity := m.Limit.Capacity()
	m.settle(late, first)
	atEnd := m.end(late)
	least := min(early.used(last), atEnd.Used(last), late.used(first))
	most := max(late.used(first), early.used(first))
	fits := m.after(&early.state, v.Cost, first) + first
	charged := int64(0)
	switch v.Outcome {
	case endpoint.Allowed:
		if v.Over = least+v.Cost > capacity; v.Over {
			least, most = capacity, capacity
			break // what was wrong is not charged, so that it is told once
		}
		most, charged = min(most, capacity-v.Cost), v.Cost
		if m.Limit.Algorithm == store.FixedWindow && atEnd.Used(last)+v.Cost > capacity {
			*late = track{state: *early.state.Clone()} // its window had ended before
		}
		earliest = min(max(first, fits), last)
		early.state.Charge(m.Limit, v.Cost, earliest)
		late.pending = append(late.pending, charge{at: last, cost: v.Cost})
	case endpoint.Denied:
		if v.Under = most+v.Cost <= capacity; !v.Under {
			least = max(least, capacity-v.Cost+1)
		}
		if m.Charges {
			m.apply(&early.state, m.denied(v.Cost, first))
			late.pending = append(late.pending, m.denied(v.Cost, last))
		}
	default: // it was charged or not
		late.pending = append(late.pending, charge{at: last, cost: v.Cost})
	}
	v.Remaining = [2]int64{max(0, capacity-most-charged), max(0, capacity-least-charged)}
	return earliest
}

// denied is how a denied request counts, if it does: it delays when there is room again.
func (m Standard) denied(cost int64, now store.Instant) charge {
	if m.Limit.FromFirst { // the window begins anew, as if EXPIRE came with each request
		return charge{at: now, cost: m.Limit.Capacity(), anew: true}
	}
	return charge{at: now, cost: cost}
}

// look notes what is true after an answer.
func (m Standard) look(early, late *track, v *View, first, last store.Instant) {
	for _, s := range []*store.State{&early.state, m.end(late)} {
		for _, now := range []store.Instant{first, last} {
			fits := m.back(now + m.after(s, v.Cost, now))
			v.Fits[0], v.Fits[1] = earlier(v.Fits[0], fits), Latest(v.Fits[1], fits)
			unused := m.back(max(now, s.UnusedAt(now)))
			v.Unused = Latest(v.Unused, unused)
			more := unused
			if used := s.Used(now); used > 1 {
				more = m.back(now + m.after(s, m.Limit.Capacity()-used+1, now))
			}
			v.More = earlier(v.More, more)
		}
	}
}

// after is how long it takes from now until a cost fits, if nobody else asks.
func (m Standard) after(s *store.State, cost int64, now store.Instant) store.Instant {
	if s.Used(now)+cost <= m.Limit.Capacity() {
		return 0
	}
	answer := s.Answer(&store.Request{Limit: m.Limit, Cost: cost}, now, false)
	return store.Instant(answer.RetryAfter / time.Microsecond)
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

// Key is the events of one subject, in an order in which they can have been decided.
type Key struct {
	Subject string
	Events  []*Event
	// Fresh: nobody had asked for it before.
	Fresh bool
}

// KeysOf sorts events by subject, which is one where it does not stand in the request. canChoose
// says that it does: then no subject was asked for before.
func KeysOf(events []Event, canChoose bool) []Key {
	var keys []Key
	at := make(map[string]int)
	for i := range events {
		e := &events[i]
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

// InOrder sorts events that were under way at the same time: those admitted come first, which
// is the order that needs the least explanation.
func InOrder(events []*Event) []*Event {
	slices.SortStableFunc(events, func(a, b *Event) int { return a.Sent.Compare(b.Sent) })
	for begin := 0; begin < len(events); {
		end, until := begin+1, events[begin].Answered
		for end < len(events) && events[end].Sent.Before(until) {
			until = Latest(until, events[end].Answered)
			end++
		}
		slices.SortStableFunc(events[begin:end], func(a, b *Event) int { return int(a.Outcome) - int(b.Outcome) })
		begin = end
	}
	return events
}

// mostPhases bounds the phases that are tried.
const mostPhases = 24

// Fit finds the phase and the manner in which the limit explains the events best. A manner that
// is known is kept.
func Fit(m Standard, keys []Key, phaseKnown bool) (best Standard, judgements []*Judgement) {
	least := int64(-1)
	explains := func(candidate Standard) bool {
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
	if m.By != (Manner{}) {
		explains(m)
		return best, judgements
	}
	phases := []time.Duration{m.Phase}
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
	plain, plainJudgements := best, judgements
	for _, by := range mannersOf(&m.Limit) {
		if explains(m.WithManner(by)) {
			return best, judgements
		}
	}
	return plain, plainJudgements // none explains all, and the usual one is told about best
}

// phasesOf returns phases that windows of a period can have, by when keys were admitted again.
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

// Proven is what the audit by intervals is sure of under a limit.
func Proven(limit store.Limit, keys []Key, resolution time.Duration) audit.Finding {
	auditor := interval.New(interval.Options{Resolution: 2 * resolution, Skew: -1})
	for i := range keys {
		auditor.SetLimit(uint32(i), limit)
		for _, e := range keys[i].Events {
			if e.Cost > 0 {
				auditor.Observe(interval.Observation{
					Key: uint32(i), Sent: store.InstantOf(e.Sent), Answered: store.InstantOf(e.Answered), Cost: e.Cost, Answer: answers[e.Outcome],
				})
			}
		}
	}
	auditor.Settle(1 << 62)
	return auditor.Finding()
}

// answers are outcomes as the audit by intervals knows them.
var answers = [...]interval.Answer{endpoint.Allowed: interval.Admitted, endpoint.Denied: interval.Denied, endpoint.Failed: interval.Unknown}

package probe

import (
	"slices"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/endpoint"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// resolution is how exactly the clocks of limiters are read: seldom finer than a millisecond.
const resolution = time.Millisecond

// standard is what an endpoint is held to: it says how a limit counts.
type standard struct {
	limit store.Limit // normalized
	// phase is by how much windows begin later than whole periods since the epoch.
	phase time.Duration
	// charges: a denied request counts, too.
	charges bool
	// resolution is how exactly times are known.
	resolution time.Duration
	// by is how the endpoint counts, if that is not how limits count here. It is judged by the
	// model that discovery has of it then, which knows instants less well.
	by Manner
}

// withManner returns the standard with another manner.
func (m standard) withManner(by Manner) standard {
	m.by, m.charges = by, by.ChargesDenied || by.Refreshed
	return m
}

// view is what must be true of one answer, if the endpoint keeps the limit.
type view struct {
	*Event
	// judged: nothing about the key was open when the request was decided.
	judged bool
	// over: it was admitted and nothing was left; under: it was denied and there was enough left.
	over, under bool
	// overlaps: others of the key were under way at the same time.
	overlaps bool
	// remaining is the least and the most that can be left after it.
	remaining [2]int64
	// fits is when the same request fits again, at the earliest and the latest.
	fits [2]time.Time
	// more is when there is more left at the earliest, and unused when all is unused at the latest.
	more, unused time.Time
}

// judgement is what came of holding the events of one subject to a standard.
type judgement struct {
	standard standard
	views    []view
	// over and under are the units that were admitted and denied wrongly.
	over, under int64
	// peak is the most that was in use with all that was admitted, at the least.
	peak int64
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

// judge holds the events of one subject to a standard. If nobody knows what the key had in use
// before, nothing is judged until that must be over.
func (m standard) judge(events []*Event, fresh bool) *judgement {
	if m.by != (Manner{}) {
		peculiar := model{limit: m.limit, phase: m.phase, Manner: m.by}
		return peculiar.judge(m, events)
	}
	j := &judgement{standard: m, views: make([]view, 0, len(events))}
	var early, late track
	var all store.State // with everything charged, as late as it can be
	known, floor := store.Instant(0), store.Instant(0)
	if !fresh && len(events) > 0 {
		var full store.State
		full.Charge(m.limit, m.limit.Capacity(), m.instant(events[0].Sent))
		known = full.UnusedAt(m.instant(events[0].Sent)) + store.Instant(m.limit.Period/time.Microsecond)
	}
	for i, e := range events {
		v := view{Event: e, judged: fresh || m.instant(e.Sent) > known}
		v.overlaps = i > 0 && e.Sent.Before(events[i-1].Answered) || i+1 < len(events) && events[i+1].Sent.Before(e.Answered)
		first, last := m.instant(e.Sent.Add(-m.resolution)), m.instant(e.Answered.Add(m.resolution))
		if i > 0 && !e.Sent.Before(events[i-1].Answered) {
			first = max(first, min(floor, last)) // it was not decided before the one before it
		}
		if e.Outcome == endpoint.Allowed {
			now := last
			if m.limit.Algorithm == store.FixedWindow { // the window that began is the one to fill
				now = first
			}
			all.Charge(m.limit, e.Cost, now)
			j.peak = max(j.peak, min(all.Used(first), all.Used(last)))
		}
		floor = m.decide(&early, &late, &v, first, last)
		if v.judged && v.over {
			j.over += e.Cost
		}
		if v.judged && v.under {
			j.under += e.Cost
		}
		m.look(&early, &late, &v, first, last)
		j.views = append(j.views, v)
	}
	return j
}

// instant is a time as the limiter's windows count it.
func (m standard) instant(t time.Time) store.Instant { return store.InstantOf(t.Add(-m.phase)) }

// back is the time of an instant.
func (m standard) back(i store.Instant) time.Time { return i.Time().Add(m.phase) }

// settle makes the charges before an instant part of the state.
func (m standard) settle(t *track, before store.Instant) {
	for len(t.pending) > 0 && t.pending[0].at <= before {
		m.apply(&t.state, t.pending[0])
		t.pending = t.pending[1:]
	}
}

func (m standard) apply(s *store.State, c charge) {
	if c.anew {
		*s = store.State{}
	}
	s.Charge(m.limit, c.cost, c.at)
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
func (m standard) end(t *track) *store.State {
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
func (m standard) decide(early, late *track, v *view, first, last store.Instant) (earliest store.Instant) {
	earliest = first
	capacity := m.limit.Capacity()
	m.settle(late, first)
	atEnd := m.end(late)
	least := min(early.used(last), atEnd.Used(last), late.used(first))
	most := max(late.used(first), early.used(first))
	fits := m.after(&early.state, v.Cost, first) + first
	charged := int64(0)
	switch v.Outcome {
	case endpoint.Allowed:
		if v.over = least+v.Cost > capacity; v.over {
			least, most = capacity, capacity
			break // what was wrong is not charged, so that it is told once
		}
		most, charged = min(most, capacity-v.Cost), v.Cost
		if m.limit.Algorithm == store.FixedWindow && atEnd.Used(last)+v.Cost > capacity {
			*late = track{state: *early.state.Clone()} // its window had ended before
		}
		earliest = min(max(first, fits), last)
		early.state.Charge(m.limit, v.Cost, earliest)
		late.pending = append(late.pending, charge{at: last, cost: v.Cost})
	case endpoint.Denied:
		if v.under = most+v.Cost <= capacity; !v.under {
			least = max(least, capacity-v.Cost+1)
		}
		if m.charges {
			m.apply(&early.state, m.denied(v.Cost, first))
			late.pending = append(late.pending, m.denied(v.Cost, last))
		}
	default: // it was charged or not
		late.pending = append(late.pending, charge{at: last, cost: v.Cost})
	}
	v.remaining = [2]int64{max(0, capacity-most-charged), max(0, capacity-least-charged)}
	return earliest
}

// denied is how a denied request counts, if it does: it delays when there is room again.
func (m standard) denied(cost int64, now store.Instant) charge {
	if m.limit.FromFirst { // the window begins anew, as if EXPIRE came with each request
		return charge{at: now, cost: m.limit.Capacity(), anew: true}
	}
	return charge{at: now, cost: cost}
}

// look notes what is true after an answer.
func (m standard) look(early, late *track, v *view, first, last store.Instant) {
	for _, s := range []*store.State{&early.state, m.end(late)} {
		for _, now := range []store.Instant{first, last} {
			fits := m.back(now + m.after(s, v.Cost, now))
			v.fits[0], v.fits[1] = earlier(v.fits[0], fits), latest(v.fits[1], fits)
			unused := m.back(max(now, s.UnusedAt(now)))
			v.unused = latest(v.unused, unused)
			more := unused
			if used := s.Used(now); used > 1 {
				more = m.back(now + m.after(s, m.limit.Capacity()-used+1, now))
			}
			v.more = earlier(v.more, more)
		}
	}
}

// after is how long it takes from now until a cost fits, if nobody else asks.
func (m standard) after(s *store.State, cost int64, now store.Instant) store.Instant {
	if s.Used(now)+cost <= m.limit.Capacity() {
		return 0
	}
	answer := s.Answer(&store.Request{Limit: m.limit, Cost: cost}, now, false)
	return store.Instant(answer.RetryAfter / time.Microsecond)
}

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// key is the events of one subject, in an order in which they can have been decided.
type key struct {
	subject string
	events  []*Event
	// fresh: nobody had asked for it before.
	fresh bool
}

// keysOf sorts events by subject, which is one where it does not stand in the request. canChoose
// says that it does: then no subject was asked for before.
func keysOf(events []Event, canChoose bool) []key {
	var keys []key
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
			keys = append(keys, key{subject: subject, fresh: canChoose})
		}
		keys[place].events = append(keys[place].events, e)
	}
	for i := range keys {
		keys[i].events = inOrder(keys[i].events)
	}
	return keys
}

// inOrder sorts events that were under way at the same time: those admitted come first, which
// is the order that needs the least explanation.
func inOrder(events []*Event) []*Event {
	slices.SortStableFunc(events, func(a, b *Event) int { return a.Sent.Compare(b.Sent) })
	for begin := 0; begin < len(events); {
		end, until := begin+1, events[begin].Answered
		for end < len(events) && events[end].Sent.Before(until) {
			until = latest(until, events[end].Answered)
			end++
		}
		slices.SortStableFunc(events[begin:end], func(a, b *Event) int { return int(a.Outcome) - int(b.Outcome) })
		begin = end
	}
	return events
}

// mostPhases bounds the phases that are tried.
const mostPhases = 24

// fit finds the phase and the manner in which the limit explains the events best. A manner that
// is known is kept.
func fit(m standard, keys []key, phaseKnown bool) (best standard, judgements []*judgement) {
	least := int64(-1)
	explains := func(candidate standard) bool {
		wrong, judged := int64(0), make([]*judgement, len(keys))
		for i := range keys {
			judged[i] = candidate.judge(keys[i].events, keys[i].fresh)
			wrong += judged[i].over + judged[i].under
		}
		if least < 0 || wrong < least {
			least, best, judgements = wrong, candidate, judged
		}
		return wrong == 0
	}
	if m.by != (Manner{}) {
		explains(m)
		return best, judgements
	}
	phases := []time.Duration{m.phase}
	if m.limit.Algorithm == store.FixedWindow && !m.limit.FromFirst {
		phases = append(phases, phasesOf(keys, m.limit.Period, phaseKnown)...)
	}
	for _, charges := range []bool{false, true} {
		for _, phase := range phases {
			candidate := m
			candidate.phase, candidate.charges = phase, charges
			if explains(candidate) {
				return best, judgements
			}
		}
	}
	plain, plainJudgements := best, judgements
	for _, by := range mannersOf(&m.limit) {
		if explains(m.withManner(by)) {
			return best, judgements
		}
	}
	return plain, plainJudgements // none explains all, and the usual one is told about best
}

// phasesOf returns phases that windows of a period can have, by when keys were admitted again.
func phasesOf(keys []key, period time.Duration, known bool) (phases []time.Duration) {
	if known {
		return nil
	}
	add := func(t time.Time) {
		if phase := time.Duration(t.UnixMicro()%period.Microseconds()) * time.Microsecond; len(phases) < mostPhases {
			phases = append(phases, phase)
		}
	}
	for i := range keys {
		events := keys[i].events
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

package probe

import (
	"slices"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/endpoint"
	"github.com/limitctl/limitctl/pkg/limiter"
)

// When exactly the endpoint decided is not known, only that it was between sending and answer.
// So a key is followed in worlds: in one each decision was made as early as it can have been,
// in the other as late. What holds in neither is wrong. Times are widened by a resolution,
// since clocks of limiters are seldom finer than a millisecond.
const resolution = time.Millisecond

// mostWorlds bounds the worlds in which a request without an answer was counted or not.
const mostWorlds = 16

// standard is what an endpoint is held to: it says how a limit counts.
type standard struct {
	limit limiter.Limit // normalized
	// phase is by how much windows begin later than whole periods since the epoch.
	phase time.Duration
	// charges: a denied request counts, too.
	charges bool
	// resolution is how exactly times are known.
	resolution time.Duration
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

// world is one way in which it can have gone.
type world struct {
	state limiter.State
	late  bool
}

// judge holds the events of one subject to a standard. If nobody knows what the key had in use
// before, nothing is judged until that must be over.
func (m standard) judge(events []*Event, fresh bool) *judgement {
	j := &judgement{standard: m, views: make([]view, 0, len(events))}
	worlds := []world{{}, {late: true}}
	var all limiter.State // with everything charged, as late as it can be
	known := limiter.Instant(0)
	if !fresh && len(events) > 0 {
		var full limiter.State
		full.Charge(m.limit, m.limit.Capacity(), m.instant(events[0].Sent))
		known = full.UnusedAt(m.instant(events[0].Sent)) + limiter.Instant(m.limit.Period/time.Microsecond)
	}
	for i, e := range events {
		v := view{Event: e, judged: fresh || m.instant(e.Sent) > known}
		v.overlaps = i > 0 && e.Sent.Before(events[i-1].Answered) || i+1 < len(events) && events[i+1].Sent.Before(e.Answered)
		early, late := m.instant(e.Sent.Add(-m.resolution)), m.instant(e.Answered.Add(m.resolution))
		if e.Outcome == endpoint.Allowed {
			now := late
			if m.limit.Algorithm == limiter.FixedWindow { // the window that began is the one to fill
				now = early
			}
			all.Charge(m.limit, e.Cost, now)
			j.peak = max(j.peak, min(all.Used(early), all.Used(late)))
		}
		worlds = m.decide(worlds, &v, early, late)
		if v.judged && v.over {
			j.over += e.Cost
		}
		if v.judged && v.under {
			j.under += e.Cost
		}
		m.look(worlds, &v, early, late)
		j.views = append(j.views, v)
	}
	return j
}

// instant is a time as the limiter's windows count it.
func (m standard) instant(t time.Time) limiter.Instant { return limiter.InstantOf(t.Add(-m.phase)) }

// back is the time of an instant.
func (m standard) back(i limiter.Instant) time.Time { return i.Time().Add(m.phase) }

// decide goes on in all worlds in which the answer can have been given, and says whether there
// is none.
func (m standard) decide(worlds []world, v *view, early, late limiter.Instant) []world {
	capacity := m.limit.Capacity()
	type fate struct{ admits, denies bool }
	fates := make([]fate, len(worlds))
	var possible fate
	for i := range worlds {
		for _, now := range []limiter.Instant{early, late} {
			if worlds[i].state.Used(now)+v.Cost <= capacity {
				fates[i].admits, possible.admits = true, true
			} else {
				fates[i].denies, possible.denies = true, true
			}
		}
	}
	var kept []world
	for i := range worlds {
		w := &worlds[i]
		now := early
		if w.late {
			now = late
		}
		switch v.Outcome {
		case endpoint.Allowed:
			if v.over = !possible.admits; v.over {
				break // what was wrong is not charged, so that it is told once
			}
			if !fates[i].admits {
				continue
			}
			if w.state.Used(now)+v.Cost > capacity {
				now = late // the only time at which it fits
			}
			w.state.Charge(m.limit, v.Cost, now)
		case endpoint.Denied:
			if v.under = !possible.denies; !v.under && !fates[i].denies {
				continue
			}
			if m.charges {
				m.chargeDenied(&w.state, v.Cost, now)
			}
		default:
			if len(kept) < mostWorlds && fates[i].admits {
				counted := world{state: *w.state.Clone(), late: w.late}
				counted.state.Charge(m.limit, v.Cost, now)
				kept = append(kept, counted)
			}
		}
		kept = append(kept, *w)
	}
	if len(kept) > mostWorlds {
		kept = kept[:mostWorlds]
	}
	return kept
}

// chargeDenied counts a denied request: it delays when there is room again.
func (m standard) chargeDenied(s *limiter.State, cost int64, now limiter.Instant) {
	if m.limit.FromFirst { // the window begins anew, as if EXPIRE came with each request
		*s = limiter.State{}
		cost = m.limit.Capacity()
	}
	s.Charge(m.limit, cost, now)
}

// look notes what is true after an answer.
func (m standard) look(worlds []world, v *view, early, late limiter.Instant) {
	capacity := m.limit.Capacity()
	v.remaining = [2]int64{capacity, 0}
	for i := range worlds {
		for _, now := range []limiter.Instant{early, late} {
			s := &worlds[i].state
			used := s.Used(now)
			left := max(0, capacity-used)
			v.remaining = [2]int64{min(v.remaining[0], left), max(v.remaining[1], left)}
			fits := m.back(now + m.after(s, v.Cost, now))
			v.fits[0], v.fits[1] = earlier(v.fits[0], fits), latest(v.fits[1], fits)
			unused := m.back(max(now, s.UnusedAt(now)))
			v.unused = latest(v.unused, unused)
			more := unused
			if used > 1 {
				more = m.back(now + m.after(s, capacity-used+1, now))
			}
			v.more = earlier(v.more, more)
		}
	}
}

// after is how long it takes from now until a cost fits, if nobody else asks.
func (m standard) after(s *limiter.State, cost int64, now limiter.Instant) limiter.Instant {
	if s.Used(now)+cost <= m.limit.Capacity() {
		return 0
	}
	answer := s.Answer(&limiter.Request{Limit: m.limit, Cost: cost}, now, false)
	return limiter.Instant(answer.RetryAfter / time.Microsecond)
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

// keysOf sorts events by subject. fresh says that no subject was asked for before.
func keysOf(events []Event, fresh bool) []key {
	var keys []key
	at := make(map[string]int)
	for i := range events {
		e := &events[i]
		place, known := at[e.Subject]
		if !known {
			place = len(keys)
			at[e.Subject] = place
			keys = append(keys, key{subject: e.Subject, fresh: fresh})
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

// fit finds the phase and the manner in which the limit explains the events best.
func fit(m standard, keys []key, phaseKnown bool) (best standard, judgements []*judgement) {
	phases := []time.Duration{m.phase}
	if m.limit.Algorithm == limiter.FixedWindow && !m.limit.FromFirst {
		phases = append(phases, phasesOf(keys, m.limit.Period, phaseKnown)...)
	}
	least := int64(-1)
	for _, charges := range []bool{false, true} {
		for _, phase := range phases {
			candidate := m
			candidate.phase, candidate.charges = phase, charges
			wrong, judged := int64(0), make([]*judgement, len(keys))
			for i := range keys {
				judged[i] = candidate.judge(keys[i].events, keys[i].fresh)
				wrong += judged[i].over + judged[i].under
			}
			if least < 0 || wrong < least {
				least, best, judgements = wrong, candidate, judged
			}
			if wrong == 0 {
				return best, judgements
			}
		}
	}
	return best, judgements
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

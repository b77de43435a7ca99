package explain

import (
	"slices"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/endpoint"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// A request was decided at some instant between sent and answered, and one that failed may have
// been charged. Each reading supposes one way; a model is contradicted where it is by all.
type reading struct {
	place  int64  // of four quarters between sent and answered
	failed uint64 // bits: which of the requests that failed were charged, the first one lowest
}

// readings begins with the likeliest.
var readings = [...]reading{{2, 0}, {0, 0}, {4, ^uint64(0)}, {2, ^uint64(0)}, {2, 1}, {2, 2}, {2, 5}, {2, 6}, {2, 3}, {2, 4}}

// plainReadings is how many readings there are where nothing failed.
const plainReadings = 3

func (r *reading) instant(o *observation) store.Instant {
	return o.sent + (o.answered-o.sent)*store.Instant(r.place)/4
}

// supposed is a reading of one subject's observations, as far as it was needed.
type supposed struct {
	usage
	taken    int // observations
	failures int // among them
}

// Contradictions counts the observations that no reading explains, and stops at most. A reading
// is followed only as far as those before it leave something unexplained.
func (h history) Contradictions(m *Model, most int) (count int) {
	var all [len(readings)]supposed
	for _, one := range h {
		plausible := readings[:]
		if !slices.ContainsFunc(one, func(o observation) bool { return o.outcome == endpoint.Failed }) {
			plausible = readings[:plainReadings]
		}
		begun := 0
		for i := range one {
			explained := one[i].outcome == endpoint.Failed
			for j := 0; j < len(plausible) && !explained; j++ {
				if j == begun {
					all[j] = supposed{}
					begun++
				}
				all[j].follow(m, one[:i], &plausible[j])
				explained = m.explains(&all[j].usage, &one[i])
			}
			if explained {
				continue
			}
			if count++; count >= most {
				return count
			}
		}
	}
	return count
}

// follow charges a model with what was observed, of which it has taken the first ones already.
func (s *supposed) follow(m *Model, observed []observation, r *reading) {
	for ; s.taken < len(observed); s.taken++ {
		o := &observed[s.taken]
		now := max(r.instant(o), s.last)
		switch o.outcome {
		case endpoint.Allowed:
			now = m.admits(&s.usage, o, now)
			m.take(&s.usage, o.cost*o.n, o.cost*o.n, now)
		case endpoint.Denied:
			m.take(&s.usage, o.cost*o.n, 0, now)
		case endpoint.Failed:
			if r.failed>>min(s.failures, 63)&1 == 1 {
				m.take(&s.usage, o.cost, o.cost, now)
			}
			s.failures++
		}
	}
}

// judgeAs holds the events of one subject to a model as discovery does. Of the readings of when they were decided, those
// count that explain most.
func (m *Model) judgeAs(standard Standard, events []*Event) *Judgement {
	tries := readings[:plainReadings]
	if slices.ContainsFunc(events, func(e *Event) bool { return e.Outcome == endpoint.Failed }) {
		tries = readings[:]
	}
	var best *Judgement
	for i := range tries {
		j := m.read(standard, events, &tries[i])
		switch {
		case best == nil || j.Over+j.Under < best.Over+best.Under:
			best = j
		case j.Over+j.Under == best.Over+best.Under:
			best.widen(j)
		}
	}
	return best
}

// widen makes all that is true in one of two judgements possible.
func (j *Judgement) widen(other *Judgement) {
	for i := range j.Views {
		v, o := &j.Views[i], &other.Views[i]
		v.Over, v.Under = v.Over && o.Over, v.Under && o.Under
		v.Remaining[0], v.Remaining[1] = min(v.Remaining[0], o.Remaining[0]), max(v.Remaining[1], o.Remaining[1])
		v.Fits[0], v.Fits[1] = earlier(v.Fits[0], o.Fits[0]), Latest(v.Fits[1], o.Fits[1])
		v.More, v.Unused = earlier(v.More, o.More), Latest(v.Unused, o.Unused)
	}
	j.Peak = min(j.Peak, other.Peak)
}

// read holds events to a model by one reading of when they were decided.
func (m *Model) read(standard Standard, events []*Event, r *reading) *Judgement {
	j := &Judgement{standard: standard, Views: make([]View, 0, len(events))}
	var u usage
	failures, capacity := 0, m.Limit.Capacity()
	for i, e := range events {
		o := observation{store.InstantOf(e.Sent), store.InstantOf(e.Answered), e.Cost, e.Outcome, 1}
		v := View{Event: e, Judged: true}
		v.Overlaps = i > 0 && e.Sent.Before(events[i-1].Answered) || i+1 < len(events) && events[i+1].Sent.Before(e.Answered)
		wrong := e.Outcome != endpoint.Failed && !m.explains(&u, &o)
		now := max(r.instant(&o), u.last)
		switch e.Outcome {
		case endpoint.Allowed:
			if v.Over = wrong; wrong {
				j.Over += e.Cost
			}
			m.take(&u, e.Cost, e.Cost, now)
			j.Peak = max(j.Peak, capacity-m.room(&u, now))
		case endpoint.Denied:
			if v.Under = wrong; wrong {
				j.Under += e.Cost
			}
			m.take(&u, e.Cost, 0, now)
		case endpoint.Failed:
			if r.failed>>min(failures, 63)&1 == 1 {
				m.take(&u, e.Cost, e.Cost, now)
			}
			failures++
		}
		room := m.room(&u, now)
		v.Remaining = [2]int64{max(0, min(room, m.room(&u, o.sent-slack))), m.room(&u, max(now, o.answered+slack))}
		fits := m.when(&u, e.Cost, now).Time()
		v.Fits = [2]time.Time{fits, fits}
		v.Unused = m.when(&u, capacity, now).Time()
		v.More = m.when(&u, min(room+1, capacity), now).Time()
		j.Views = append(j.Views, v)
	}
	return j
}

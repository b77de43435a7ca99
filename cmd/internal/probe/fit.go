package probe

import (
	"slices"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/endpoint"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// observation is an event as models are held against it.
type observation struct {
	sent, answered store.Instant
	cost           int64
	outcome        endpoint.Outcome
	n              int64 // requests of this cost that were under way together and answered alike
}

// history is what was observed of each subject, each in the order of decision. With a
// limit that all subjects share there is one.
type history [][]observation

// slack is how far an instant may lie outside the time between sent and answered: clocks here
// and there count whole milliseconds.
const slack = store.Instant(1100)

// historyOf sorts events for models.
func historyOf(events []Event, shared bool) history {
	index := make(map[string]int)
	var h history
	for i := range events {
		e := &events[i]
		if e.Cost == 0 {
			continue // a peek
		}
		subject := e.Subject
		if shared {
			subject = ""
		}
		at, known := index[subject]
		if !known {
			at = len(h)
			index[subject] = at
			h = append(h, nil)
		}
		h[at] = append(h[at], observation{store.InstantOf(e.Sent), store.InstantOf(e.Answered), e.Cost, e.Outcome, 1})
	}
	for i, one := range h {
		slices.SortStableFunc(one, func(a, b observation) int { return int(a.sent - b.sent) })
		h[i] = together(one)
	}
	return h
}

// together puts admissions before denials where requests were under way together, since a denial
// that came after is explained by all of them, and makes one observation of those answered alike.
func together(one []observation) (merged []observation) {
	for begin := 0; begin < len(one); {
		end, until := begin+1, one[begin].answered
		for end < len(one) && one[end].sent < until {
			until = max(until, one[end].answered)
			end++
		}
		slices.SortStableFunc(one[begin:end], func(a, b observation) int { return int(a.outcome) - int(b.outcome) })
		for _, o := range one[begin:end] {
			last := len(merged) - 1
			if end-begin == 1 || o.outcome == endpoint.Failed || last < 0 || merged[last].outcome != o.outcome ||
				merged[last].cost != o.cost || merged[last].answered <= one[begin].sent {
				merged = append(merged, o)
				continue
			}
			merged[last].n++
			merged[last].sent, merged[last].answered = min(merged[last].sent, o.sent), max(merged[last].answered, o.answered)
		}
		begin = end
	}
	return merged
}

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

// contradictions counts the observations that no reading explains, and stops at most. A reading
// is followed only as far as those before it leave something unexplained.
func (h history) contradictions(m *model, most int) (count int) {
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
func (s *supposed) follow(m *model, observed []observation, r *reading) {
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

// explains reports whether a model answers as was observed at an instant about when it was
// decided. Between requests room only grows.
func (m *model) explains(u *usage, o *observation) bool {
	if o.outcome == endpoint.Allowed {
		return m.room(u, max(u.last, o.answered+slack)) >= o.cost*o.n
	}
	return m.room(u, max(u.last, o.sent-slack)) < o.cost
}

// admits returns when an admission was decided: the first instant from now on at which the model has room for
// it, since it cannot have been decided earlier. It is now if there is no such instant before the answer.
func (m *model) admits(u *usage, o *observation, now store.Instant) store.Instant {
	wanted, until := o.cost*o.n, o.answered+slack
	if now >= until || m.room(u, now) >= wanted || m.room(u, until) < wanted {
		return now
	}
	return m.firstRoom(u, wanted, now, until)
}

// edge is a recovery: a subject that had been denied was admitted again.
type edge struct {
	after, by time.Time // the last denial was sent, the admission answered
	between   int       // admitted since the edge before, or since the beginning
}

// edgesOf returns the recoveries of one subject.
func edgesOf(one []observation) (edges []edge) {
	admitted := 0
	var denied *observation
	for i := range one {
		o := &one[i]
		switch o.outcome {
		case endpoint.Denied:
			denied = o
		case endpoint.Allowed:
			if denied != nil {
				edges = append(edges, edge{denied.sent.Time(), o.answered.Time(), admitted})
				denied, admitted = nil, 0
			}
			admitted += int(o.n)
		case endpoint.Failed: // may have been counted, and shows nothing
		}
	}
	return edges
}

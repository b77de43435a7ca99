package explain

import (
	"slices"

	"github.com/limitctl/limitctl/cmd/internal/endpoint"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Event is one request of a probe and its answer.
type Event struct {
	Subject string
	Cost    int64
	endpoint.Answer
	// Err is why there was no answer; the request may have been counted.
	Err error
}

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

// HistoryOf sorts events for models.
func HistoryOf(events []Event, shared bool) history {
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

// explains reports whether a model answers as was observed at an instant about when it was
// decided. Between requests room only grows.
func (m *Model) explains(u *usage, o *observation) bool {
	if o.outcome == endpoint.Allowed {
		return m.room(u, max(u.last, o.answered+slack)) >= o.cost*o.n
	}
	return m.room(u, max(u.last, o.sent-slack)) < o.cost
}

// admits returns when an admission was decided: the first instant from now on at which the model has room for
// it, since it cannot have been decided earlier. It is now if there is no such instant before the answer.
func (m *Model) admits(u *usage, o *observation, now store.Instant) store.Instant {
	wanted, until := o.cost*o.n, o.answered+slack
	if now >= until || m.room(u, now) >= wanted || m.room(u, until) < wanted {
		return now
	}
	return m.firstRoom(u, wanted, now, until)
}

// Sequential is how many requests of a burst are sent one after the other before several
// workers send them: small limits are found exactly, and large ones before they refill.
const Sequential = 32

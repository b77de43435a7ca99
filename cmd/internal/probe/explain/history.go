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
	// Trial is the check that the request was sent for alone. It is empty for the requests by which the limit is judged.
	Trial string
}

// observation is an event in the form in which it is compared with models.
type observation struct {
	sent, answered store.Instant
	cost           int64
	outcome        endpoint.Outcome
	n              int64 // requests of this cost that were under way together and had the same outcome
}

// history is what was observed of each subject, in the order of decision. If all subjects share a limit, there is
// one.
type history [][]observation

// slack is how far an instant may lie outside the time between sending and answer: both clocks count whole
// milliseconds.
const slack = store.Instant(1100)

// HistoryOf groups events for models.
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

// together puts admissions before denials among requests that were under way together, since a denial after them is
// explained by all of them. It makes one observation of those with the same outcome.
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

// explains reports whether a model gives the observed answer at an instant near that of the decision. Between
// requests room only grows.
func (m *Model) explains(u *usage, o *observation) bool {
	if o.outcome == endpoint.Allowed {
		return m.room(u, max(u.last, o.answered+slack)) >= o.cost*o.n
	}
	return m.room(u, max(u.last, o.sent-slack)) < o.cost
}

// admits returns the instant of an admission: the first from now on at which the model has room for it, since no
// earlier one is possible. It is now if there is no such instant before the answer.
func (m *Model) admits(u *usage, o *observation, now store.Instant) store.Instant {
	wanted, until := o.cost*o.n, o.answered+slack
	if now >= until || m.room(u, now) >= wanted || m.room(u, until) < wanted {
		return now
	}
	return m.firstRoom(u, wanted, now, until)
}

// Sequential is the number of requests of a burst that are sent one after the other before several workers send
// them: small limits are found exactly, and large ones before they refill.
const Sequential = 32

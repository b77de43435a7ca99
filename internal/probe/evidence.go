package probe

import (
	"slices"
	"time"

	"github.com/limitctl/limitctl/internal/endpoint"
	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/loadgen/audit/interval"
)

// resolution is how exactly times are known: limiters seldom read finer clocks than of milliseconds.
const resolution = 2 * time.Millisecond

// key has the events of one subject, in the order in which they were sent.
type key struct{ events []*Event }

// keysOf groups the events by subject. If the requests do not name it, there is one.
func (v *verification) keysOf() (keys []key) {
	at := make(map[string]int)
	canChoose := v.canChoose()
	for i := range v.events {
		subject := ""
		if canChoose {
			subject = v.events[i].Subject
		}
		place, known := at[subject]
		if !known {
			place = len(keys)
			at[subject], keys = place, append(keys, key{})
		}
		keys[place].events = append(keys[place].events, &v.events[i])
	}
	for _, k := range keys {
		slices.SortStableFunc(k.events, func(a, b *Event) int { return a.Sent.Compare(b.Sent) })
	}
	return keys
}

// firstDenials are the events of each key that were sent before its first denial was answered.
func firstDenials(keys []key) (first []key) {
	for _, k := range keys {
		n := len(k.events)
		if i := slices.IndexFunc(k.events, func(e *Event) bool { return e.Outcome == endpoint.Denied }); i >= 0 {
			denied := k.events[i].Answered
			n = i + 1
			for n < len(k.events) && k.events[n].Sent.Before(denied) {
				n++
			}
		}
		first = append(first, key{k.events[:n]})
	}
	return first
}

// answers are outcomes in the words of the interval audit.
var answers = [...]interval.Answer{endpoint.Allowed: interval.Admitted, endpoint.Denied: interval.Denied, endpoint.Failed: interval.Unknown}

// audit judges answers under a limit, and what they report, if that is not nil.
func (v *verification) audit(limit *store.Limit, keys []key, reported func(*Event) *interval.Reported) *interval.Auditor {
	auditor := interval.New(interval.Options{Resolution: resolution, UsedBefore: !v.canChoose()})
	for i, k := range keys {
		auditor.SetLimit(uint32(i), *limit)
		for _, event := range k.events {
			o := interval.Observation{
				Key: uint32(i), Sent: store.InstantOf(event.Sent), Answered: store.InstantOf(event.Answered),
				Cost: 1, Answer: answers[event.Outcome],
			}
			if reported != nil {
				o.Reported = reported(event)
			}
			auditor.Observe(o)
		}
	}
	auditor.Settle(1 << 62)
	return auditor
}

// isKept reports whether nothing of the answers is certainly wrong.
func (e *proof) isKept() bool { return e.certain.OverAdmitted+e.certain.UnderAdmitted == 0 }

// schedule is when a subject is admitted again, of what was admitted so far: certainly not before early, and certainly from
// late on. From unused on, all of the limit is. It is zero if the subject was never denied.
type schedule struct{ early, late, unused time.Time }

// schedule returns that of a subject whose last request was denied.
func (v *verification) schedule(subject string) (s schedule) {
	var asked key
	var denied *Event
	for i := range v.events {
		if event := &v.events[i]; !v.canChoose() || event.Subject == subject {
			asked.events = append(asked.events, event)
			if event.Outcome == endpoint.Denied {
				denied = event
			}
		}
	}
	if denied == nil {
		return s
	}
	back := v.audit(&v.limit, []key{asked}, nil).Back(0, store.InstantOf(denied.Sent), store.InstantOf(denied.Answered))
	return schedule{back.Early.Time(), back.Late.Time(), back.Unused.Time()}
}

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

// key has the events of one subject, in the order in which they were sent. Of those in another way, which are not
// among them, the admitted ones may have been charged to it.
type key struct{ events, charged []*Event }

// keysOf groups the events by subject. If the requests do not name it, there is one.
func (v *verification) keysOf() (keys []key) {
	known := map[string]bool{}
	for i := range v.events {
		if subject := v.events[i].Subject; !known[subject] && (v.canChoose() || len(keys) == 0) {
			known[subject], keys = true, append(keys, v.keyOf(subject, ""))
		}
	}
	return keys
}

// keyOf returns the events of a subject: those asked in the usual way, and in another if that is not empty.
func (v *verification) keyOf(subject, way string) (k key) {
	for i := range v.events {
		switch e := &v.events[i]; {
		case v.canChoose() && e.Subject != subject:
		case e.way == "" || e.way == way:
			k.events = append(k.events, e)
		case e.Outcome == endpoint.Allowed:
			k.charged = append(k.charged, e)
		}
	}
	slices.SortStableFunc(k.events, bySent)
	return k
}

func bySent(a, b *Event) int { return a.Sent.Compare(b.Sent) }

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
		first = append(first, key{events: k.events[:n]})
	}
	return first
}

// answers are outcomes in the words of the interval audit.
var answers = [...]interval.Answer{endpoint.Allowed: interval.Admitted, endpoint.Denied: interval.Denied,
	endpoint.Failed: interval.Unknown}

// audit judges answers under a limit, and what they report, if that is not nil.
func (v *verification) audit(limit *store.Limit, keys []key,
	reported func(*Event) *interval.Reported) *interval.Auditor {
	auditor := interval.New(interval.Options{Resolution: resolution, UsedBefore: !v.canChoose()})
	for i, k := range keys {
		auditor.SetLimit(uint32(i), *limit)
		observe := func(event *Event, answer interval.Answer, reported func(*Event) *interval.Reported) {
			o := interval.Observation{
				Key: uint32(i), Sent: store.InstantOf(event.Sent), Answered: store.InstantOf(event.Answered),
				Cost: 1, Answer: answer,
			}
			if reported != nil {
				o.Reported = reported(event)
			}
			auditor.Observe(o)
		}
		for _, event := range k.events {
			observe(event, answers[event.Outcome], reported)
		}
		for _, event := range k.charged {
			observe(event, interval.Uncertain, nil)
		}
	}
	auditor.Settle(1 << 62)
	return auditor
}

// isKept reports whether nothing of the answers is certainly wrong.
func (e *proof) isKept() bool { return e.certain.OverAdmitted+e.certain.UnderAdmitted == 0 }

// back is when a subject whose last request was denied is admitted again, of what was admitted so far; zero if it was
// never denied.
func (v *verification) back(subject string) interval.Back {
	asked := v.keyOf(subject, "")
	for _, e := range slices.Backward(asked.events) {
		if e.Outcome == endpoint.Denied {
			return v.audit(&v.limit, []key{asked}, nil).Back(0, store.InstantOf(e.Sent), store.InstantOf(e.Answered))
		}
	}
	return interval.Back{}
}

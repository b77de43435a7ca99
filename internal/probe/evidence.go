package probe

import (
	"slices"
	"time"

	"github.com/limitctl/limitctl/internal/endpoint"
	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/loadgen/audit"
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

// audit returns what is certain about the answers under a limit, and about what they report, if that is not nil.
func (e *proof) audit(limit *store.Limit, keys []key, reported func(*Event) *interval.Reported) audit.Finding {
	auditor := interval.New(interval.Options{Resolution: resolution, UsedBefore: !e.canChoose()})
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
	return auditor.Finding()
}

// isKept reports whether nothing of the answers is certainly wrong.
func (e *proof) isKept() bool { return e.certain.OverAdmitted+e.certain.UnderAdmitted == 0 }

// schedule is when a subject is admitted again, of what was admitted so far: certainly not before early, and certainly from
// late on. Where windows begin is not known, but with a request.
type schedule struct{ early, late, unused time.Time }

// schedule returns that of a subject whose last request was denied.
func (v *verification) schedule(subject string) (s schedule) {
	var first, last store.State
	var admitted, denied, before, turn *Event // the window turned between before and turn
	for i := range v.events {
		event := &v.events[i]
		switch {
		case v.canChoose() && event.Subject != subject:
		case event.Outcome == endpoint.Denied:
			denied = event
		default:
			if admitted = event; denied != nil && denied.Answered.Before(event.Sent) && denied != before {
				before, turn = denied, event
			}
			first.Charge(v.limit, 1, max(first.Time, store.InstantOf(event.Sent)))
			last.Charge(v.limit, 1, max(last.Time, store.InstantOf(event.Answered)))
		}
	}
	if denied == nil {
		return s
	}
	request := store.Request{Limit: v.limit, Cost: 1}
	fits := func(state *store.State, at time.Time) time.Time {
		return at.Add(state.Answer(&request, max(state.Time, store.InstantOf(at)), false).RetryAfter)
	}
	s.early, s.late = fits(&first, denied.Sent), fits(&last, denied.Answered)
	s.unused = max(last.UnusedAt(store.InstantOf(denied.Answered)), store.InstantOf(denied.Answered)).Time()
	if l := &v.limit; admitted != nil && (l.Algorithm == store.SlidingCounter || l.Algorithm == store.FixedWindow && !l.FromFirst) {
		s.early = denied.Sent
		s.late = admitted.Answered.Add(l.Period)
		if s.unused = s.late; l.Algorithm == store.FixedWindow && turn != nil && denied.Answered.Before(before.Sent.Add(l.Period)) {
			s.early, s.late, s.unused = before.Sent.Add(l.Period), turn.Answered.Add(l.Period), turn.Answered.Add(l.Period)
		} else if l.Algorithm == store.SlidingCounter {
			s.late = s.late.Add(l.Period/time.Duration(l.Count) + time.Millisecond)
			s.unused = s.unused.Add(l.Period)
		}
	}
	return s
}

package probe

import (
	"fmt"
	"slices"

	"github.com/limitctl/limitctl/internal/endpoint"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// admitted checks that no more than the limit is admitted, and that the first denial is not too early.
func (e *proof) admitted() Check {
	capacity := e.limit.Capacity()
	c := Check{Name: checkAdmitted, Verdict: Unknown, Expected: "at most " + allowance(&e.limit)}
	denied := e.certain.Denied > 0
	switch text := unasked(e.events); {
	case !denied && text != "":
		c.Seen = text
	case e.certain.OverAdmitted > 0:
		c.Verdict, c.Seen = Fail, fmt.Sprintf("%s too many, whenever the requests were decided",
			output.Plural(int(e.certain.OverAdmitted), "unit"))
		if !denied {
			c.Seen += ", and no request was denied"
		}
	case e.first.UnderAdmitted > 0:
		c.Verdict = Fail
		c.Seen = fmt.Sprintf("too few: request %d of a new subject was denied", e.earliest())
		c.Expected += fmt.Sprintf(", and the first denial not before request %d", capacity+1)
	case !denied:
		c.Seen = "no request was denied, and the limit was not reached"
	case e.certain.PeakRatio < 1:
		c.Seen = "no denial had a reason"
	default:
		c.Verdict = Pass
		peak := min(e.certain.WorstUnits, capacity) // units that came back in between do not count
		c.Seen = fmt.Sprintf("%s in use at worst, and the next request denied", output.Plural(int(peak), "unit"))
	}
	return c
}

// earliest is the number of the first denial of a key, from 1, where that is the least.
func (e *proof) earliest() (least int) {
	for _, k := range e.keys {
		n := 1 + slices.IndexFunc(k.events, func(e *Event) bool { return e.Outcome == endpoint.Denied })
		if n > 0 && (least == 0 || n < least) {
			least = n
		}
	}
	return least
}

// allowance describes in words what a limit allows.
func allowance(l *store.Limit) string {
	period := store.FormatPeriod(l.Period)
	if l.Algorithm.HasBurst() {
		return fmt.Sprintf("%d at once, and %d in %s from then on", l.Capacity(), l.Count, period)
	}
	if l.Algorithm == store.FixedWindow {
		return fmt.Sprintf("%d in a window of %s", l.Count, period)
	}
	return fmt.Sprintf("%d in any %s", l.Count, period)
}

// subjects checks that the usage of one subject does not count against another.
func (e *proof) subjects() Check {
	c := Check{Name: checkSubjects, Verdict: e.apart, Expected: "another subject is admitted while one is denied"}
	switch {
	case !e.canChoose():
		c.Moot, c.Verdict = true, Unknown
		c.Seen = "all requests are of one subject: there is no {subject} in the request"
	case c.Verdict == Pass:
		c.Seen = "another subject was admitted while one was denied"
	case c.Verdict == Fail:
		c.Seen = "the first request of another subject was denied while one was over the limit: they share it"
	default:
		c.Verdict, c.Seen = Unknown, "no other subject was tried while one was denied"
	}
	return c
}

// recovery checks that used units come back when the limit says so, neither more nor fewer.
func (e *proof) recovery() Check {
	c := Check{Name: checkRecovery, Verdict: Unknown, Expected: comesBack(&e.limit),
		Seen: "the probe did not wait that long, so the period was not checked"}
	most := 0 // requests admitted between two denials
	for _, k := range e.keys {
		var denied *Event
		run := 0
		for _, event := range k.events {
			switch {
			case denied != nil && event.Sent.Before(denied.Answered): // it can have been decided before
			case event.Outcome == endpoint.Allowed:
				run++
			case event.Outcome == endpoint.Denied:
				if denied != nil {
					most = max(most, run)
				}
				denied, run = event, 0
			}
		}
	}
	under, over := e.certain.UnderAdmitted-e.first.UnderAdmitted, e.certain.OverAdmitted-e.first.OverAdmitted
	switch {
	case under > 0:
		return failed(c, "too late or too little: "+output.Plural(int(under), "unit")+" denied that fitted again")
	case over > 0:
		return failed(c, "too much or too early: "+output.Plural(int(over), "unit")+" too many after a denial")
	case most > 0:
		c.Verdict, c.Seen = Pass, fmt.Sprintf("after a denial and a wait, %s admitted and then one denied", output.Plural(most, "request"))
	}
	return c
}

// comesBack describes when used units come back.
func comesBack(l *store.Limit) string {
	period := store.FormatPeriod(l.Period)
	switch {
	case l.Algorithm.HasBurst():
		return fmt.Sprintf("%d come back in %s, up to %d", l.Count, period, l.Capacity())
	case l.Algorithm == store.FixedWindow:
		return fmt.Sprintf("%d are back when the window of %s ends, and no more", l.Count, period)
	case l.Algorithm == store.SlidingCounter:
		return fmt.Sprintf("all %d are back after %s at the latest, and no more", l.Count, store.FormatPeriod(2*l.Period))
	default:
		return fmt.Sprintf("each comes back %s after it was used, and no more", period)
	}
}

package probe

import (
	"fmt"
	"slices"

	"github.com/limitctl/limitctl/internal/endpoint"
	"github.com/limitctl/limitctl/internal/output"
)

// admitted checks that no more than the limit is admitted, and that the first denial is not too early.
func (e *proof) admitted() Check {
	capacity := e.limit.Capacity()
	c := Check{Name: checkAdmitted, Verdict: Unknown, Expected: "no more than " + e.limit.String()}
	denied := e.certain.Denied > 0
	switch text := unasked(e.events); {
	case !denied && text != "":
		c.Seen = text
	case e.certain.OverAdmitted > 0:
		c.Verdict, c.Seen = Fail, fmt.Sprintf("%s too many, whenever the requests were decided",
			output.Count(int(e.certain.OverAdmitted), "unit"))
		if !denied {
			c.Seen += ", and no request was denied" + toldToWait(e.events)
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
		c.Seen = fmt.Sprintf("%s in use at worst, and the next request denied", output.Count(int(peak), "unit"))
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
	c := Check{Name: checkRecovery, Verdict: Unknown, Expected: "what was used comes back when " + e.limit.String() +
		" says, and no more",
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
		return failed(c, "too late or too little: "+output.Count(int(under), "unit")+" denied that fitted again")
	case over > 0:
		return failed(c, "too much or too early: "+output.Count(int(over), "unit")+" too many after a denial")
	case !e.fitsWindows():
		return failed(c, "the answers fit no windows of "+e.limit.String()+", wherever they begin")
	case most > 0:
		c.Verdict, c.Seen = Pass, fmt.Sprintf("after a denial and a wait, %s admitted and then one denied",
			output.Count(most, "request"))
	}
	return c
}

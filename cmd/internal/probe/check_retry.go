package probe

import (
	"fmt"
	"net/http"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/endpoint"
	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/cmd/internal/probe/explain"
	"github.com/limitctl/limitctl/cmd/internal/probe/headers"
)

// retryAfter checks that Retry-After is there and true.
func (e *proof) retryAfter() Check {
	c := Check{Name: checkRetryAfter, Verdict: Unknown, Seen: "no request was denied",
		Expected: "on each denial, in seconds or as a date, not too early and at most 1 s late"}
	told, missing, denials, status := 0, 0, 0, 0
	late, longest := e.spread()
	waited, nearest := "", time.Duration(0)
	for i := range e.keys {
		events := e.keys[i].Events
		for n, event := range events {
			if event.Outcome != endpoint.Denied {
				continue
			}
			denials++
			r := e.readings[event]
			switch {
			case r.RetryProblem != "":
				return failed(c, r.RetryProblem)
			case r.RetryAfter == headers.NotTold:
				missing, status = missing+1, event.Status
				continue
			}
			told++
			wrong, seen, gap := e.retried(r, mostLate+longest, events, n)
			if wrong == "" && e.hasLimit && !e.guessed && e.least() == 0 {
				wrong = e.retryByModel(r, mostLate+longest, event, e.judged[i], n)
			}
			if wrong != "" {
				return failed(c, fmt.Sprintf("Retry-After: %s%s", r.RetryText, wrong))
			}
			if seen != "" && (waited == "" || gap < nearest) {
				nearest = gap
				waited = fmt.Sprintf("Retry-After: %s%s", r.RetryText, seen)
			}
		}
	}
	switch {
	case missing > 0 && (status == http.StatusTooManyRequests || told > 0):
		return failed(c, fmt.Sprintf("missing on %d of %s", missing, output.Plural(denials, "denial")))
	case missing > 0 && status == 0:
		c.Moot, c.Seen = true, "the service adds none to its answers, which is usual"
	case missing > 0:
		c.Moot = true
		c.Seen = fmt.Sprintf("missing, but it is only asked for with status %d, and denials have %d", http.StatusTooManyRequests, status)
	case waited != "":
		c.Verdict, c.Seen = Pass, waited
		if late > mostLate {
			c.Seen += fmt.Sprintf("; it is up to %s later than needed, by another time on each denial, so that clients come back apart",
				span(late))
		}
	case told > 0:
		c.Seen = fmt.Sprintf("it is on %s, and the probe did not wait that long", output.Plural(told, "denial"))
	}
	return c
}

// spread reports whether denials of one wait name instants that go up and down by more than a second, be it in another wait, and
// some are in time. Then the waits are longer on purpose, so that clients do not come back all at once. A wait that is always the
// same, or in another unit, only moves them one way. late is how much later than needed they were seen to be at most, and longest
// the longest of them; both are 0 if they are not.
func (e *proof) spread() (late, longest time.Duration) {
	up, down, inTime := false, false, false
	for i := range e.keys {
		events := e.keys[i].Events
		for n := 0; n < len(events); n++ {
			var last, before time.Time
			for ; n < len(events) && events[n].Outcome == endpoint.Denied; n++ {
				r := e.readings[events[n]]
				if r.RetryAfter == headers.NotTold || r.RetryProblem != "" {
					continue
				}
				named := events[n].Answered.Add(r.RetryAfter)
				if !before.IsZero() {
					up = up || named.Sub(before) > mostLate+r.Coarse()
					down = down || before.Sub(named) > mostLate+r.Coarse()
				}
				if len(e.judged) > 0 { // else there is no limit to judge by
					v := &e.judged[i].Views[n]
					inTime = inTime || v.Judged && !named.After(v.Fits[1].Add(mostLate+r.Coarse()))
				}
				before, last, longest = named, explain.Latest(last, named), max(longest, r.RetryAfter)
			}
			if n < len(events) && events[n].Outcome == endpoint.Allowed && !last.IsZero() {
				late = max(late, last.Sub(events[n].Sent))
			}
		}
	}
	if !up || !down || !inTime {
		return 0, 0
	}
	return late, longest
}

func failed(c Check, seen string) Check {
	c.Verdict, c.Seen = Fail, seen
	return c
}

// retried judges a denial by the requests after it: it returns what is wrong with its Retry-After, or that a request
// waited for it and was admitted. The field may be mayBeLate too late. gap is the time between the announced instant and
// the nearest request.
func (e *proof) retried(r *headers.Reading, mayBeLate time.Duration, events []*explain.Event, n int) (
	wrong, seen string, gap time.Duration,
) {
	event := events[n]
	before := time.Duration(0)
	for _, later := range events[n+1:] {
		if later.Cost != event.Cost {
			break
		}
		wait := later.Sent.Sub(event.Answered)
		switch later.Outcome {
		case endpoint.Allowed:
			if latest := later.Answered.Sub(event.Sent); latest < r.RetryAfter-mayBeLate {
				return fmt.Sprintf(", but a request %s later was admitted already%s", span(wait), hint(r, latest)), "", 0
			}
			gap = wait - r.RetryAfter
			switch {
			case wait+r.Coarse() < r.RetryAfter:
				return "", "", 0
			case before > 0:
				return "", fmt.Sprintf(": a request %s later was denied, and one %s later admitted", span(before), span(wait)), gap
			}
			return "", fmt.Sprintf(": a request %s later was admitted", span(wait)), gap + mostLate
		case endpoint.Denied:
			if len(e.model.Beside) > 0 { // perhaps by another limit, so the limits judge
				before = wait
				continue
			}
			if wait >= r.RetryAfter+r.Coarse()+explain.Resolution && later.Answered != event.Answered {
				return fmt.Sprintf(", but a request %s later was denied%s", span(wait), e.whenAdmitted(events, event)), "", 0
			}
			before = wait
			if e.model.Charges {
				return "", "", 0 // it made the wait longer, and said so itself
			}
		default:
			return "", "", 0
		}
	}
	return "", "", 0
}

// whenAdmitted describes when a request was admitted after a denial.
func (e *proof) whenAdmitted(events []*explain.Event, denied *explain.Event) string {
	for _, event := range events {
		if event.Sent.After(denied.Answered) && event.Outcome == endpoint.Allowed {
			return fmt.Sprintf("; the first was admitted %s later", span(event.Sent.Sub(denied.Answered)))
		}
	}
	return ""
}

// retryByModel returns what is wrong with Retry-After by the limit, which explains all answers. The field may be
// mayBeLate too late.
func (e *proof) retryByModel(r *headers.Reading, mayBeLate time.Duration, event *explain.Event, judged *explain.Judgement, at int) string {
	v := judged.Views[at]
	if v.Overlaps || !v.Judged {
		return ""
	}
	early, late := event.Answered.Add(r.RetryAfter+r.Coarse()+e.model.Resolution),
		event.Sent.Add(r.RetryAfter-r.Coarse()-e.model.Resolution)
	first := v.Fits[0]
	for _, n := range judged.MayDeny(at) { // each tells of itself alone
		if fits := judged.Each[n].Views[at].Fits[0]; fits.Before(first) {
			first = fits
		}
	}
	switch {
	case early.Before(first):
		return fmt.Sprintf(", but the limit admits it after %s", span(v.Fits[0].Sub(event.Answered)))
	case late.After(v.Fits[1].Add(mayBeLate)):
		wait := v.Fits[1].Sub(event.Answered)
		return fmt.Sprintf(", but the limit admits it after %s%s", span(wait), hint(r, wait))
	}
	return ""
}

// hint guesses why a wait that was told as a number is far too long.
func hint(r *headers.Reading, truly time.Duration) string {
	if r.RetryDate {
		return ""
	}
	switch n := r.RetryAfter / time.Second; {
	case n >= headers.LeastUnix:
		return "; it looks like a unix time"
	case n >= 100 && time.Duration(n)*time.Millisecond <= truly+2*mostLate && time.Duration(n)*time.Millisecond >= truly/2:
		return "; it looks like milliseconds"
	}
	return ""
}

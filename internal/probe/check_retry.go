package probe

import (
	"fmt"
	"net/http"
	"time"

	"github.com/limitctl/limitctl/internal/endpoint"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/internal/probe/headers"
)

// retryAfter checks that Retry-After is there and true.
func (e *proof) retryAfter() Check {
	c := Check{Name: checkRetryAfter, Verdict: Unknown, Seen: "no request was denied",
		Expected: "on each denial, in seconds or as a date, not too early and at most 1 s late"}
	denials, told, status := 0, 0, 0 // status is that of the last denial without it
	apart, waited := e.spread(), ""
	for i := range e.keys {
		events := e.keys[i].events
		for n, event := range events {
			if event.Outcome != endpoint.Denied {
				continue
			}
			r := e.readings[event]
			denials++
			switch {
			case r.RetryProblem != "":
				return failed(c, r.RetryProblem)
			case r.RetryAfter == headers.NotTold:
				status = event.Status
				continue
			}
			told++
			wrong, seen := e.retried(r, apart, events, n)
			if wrong != "" {
				return failed(c, fmt.Sprintf("Retry-After: %s%s", r.RetryText, wrong))
			}
			if seen != "" {
				waited = fmt.Sprintf("Retry-After: %s%s", r.RetryText, seen)
			}
		}
	}
	switch {
	case told < denials && (told > 0 || status == http.StatusTooManyRequests):
		return failed(c, fmt.Sprintf("missing on %d of %s", denials-told, output.Count(denials, "denial")))
	case told < denials:
		c.Moot, c.Seen = true, fmt.Sprintf("missing, but it is only asked for with status %d, and denials have %s",
			http.StatusTooManyRequests, endpoint.StatusText(status))
	case waited != "":
		c.Verdict, c.Seen = Pass, waited
		if apart > 0 {
			c.Seen += "; it is later by another time on each denial, so that clients come back apart"
		}
	case told > 0:
		c.Seen = fmt.Sprintf("it is on %s, and the probe did not wait that long", output.Count(told, "denial"))
	}
	return c
}

// spread returns the longest wait if denials of one wait name instants that go up and down by more than a second, and
// 0 if not. Then the waits are longer on purpose, so that clients do not come back all at once. A wait that is always
// the same, or in another unit, only moves them one way.
func (e *proof) spread() (longest time.Duration) {
	up, down := false, false
	for i := range e.keys {
		var before time.Time
		for _, event := range e.keys[i].events {
			r := e.readings[event]
			if event.Outcome != endpoint.Denied || r.RetryAfter == headers.NotTold || r.RetryProblem != "" {
				before = time.Time{}
				continue
			}
			named, coarse := event.Answered.Add(r.RetryAfter), mostLate+r.RetryWithin
			up = up || !before.IsZero() && named.Sub(before) > coarse
			down = down || !before.IsZero() && before.Sub(named) > coarse
			before, longest = named, max(longest, r.RetryAfter)
		}
	}
	if !up || !down {
		return 0
	}
	return longest
}

func failed(c Check, seen string) Check {
	c.Verdict, c.Seen = Fail, seen
	return c
}

// retried judges a denial by the requests after it: it returns what is wrong with its Retry-After, or that a request
// waited for it and was admitted. It may be later by apart.
func (e *proof) retried(r *headers.Reading, apart time.Duration, events []*Event, n int) (wrong, seen string) {
	event := events[n]
	for _, later := range events[n+1:] {
		wait := later.Sent.Sub(event.Answered)
		if wait < 0 { // it can have been decided before
			continue
		}
		switch later.Outcome {
		case endpoint.Allowed:
			if latest := later.Answered.Sub(event.Sent); latest < r.RetryAfter-r.RetryWithin-mostLate-apart {
				return fmt.Sprintf(", but a request %s later was admitted already%s", span(wait),
					clocks(r.RetryWithin)), ""
			}
			if wait+r.RetryWithin < r.RetryAfter {
				return "", ""
			}
			return "", fmt.Sprintf(": a request %s later was admitted", span(wait))
		case endpoint.Denied:
			if wait >= r.RetryAfter+r.RetryWithin+resolution && later.Answered != event.Answered {
				return fmt.Sprintf(", but a request %s later was denied%s", span(wait), clocks(r.RetryWithin)), ""
			}
			if e.certain.UnderIfFree > 0 {
				return "", "" // it made the wait longer, and said so itself
			}
		default:
			return "", ""
		}
	}
	return "", ""
}

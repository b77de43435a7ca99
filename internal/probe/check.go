package probe

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/limitctl/limitctl/internal/endpoint"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/internal/probe/headers"
	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/loadgen/audit"
)

// The names of the checks, in the order in which they are printed.
const (
	checkAdmitted     = "admitted"
	checkDenialStatus = "denial-status"
	checkRetryAfter   = "retry-after"
	checkHeaders      = "headers"
	checkSubjects     = "subjects"
	checkSameClient   = "same-client"
	checkRecovery     = "recovery"
)

// Run checks whether the endpoint keeps the limit of the configuration. After an error the result has what was seen
// until then; it is never nil. A used-up quota is no error.
func Run(ctx context.Context, config *Config) (*Result, error) {
	limit, err := config.Limit.Normalize()
	if err != nil {
		return &Result{}, err
	}
	v := &verification{session: newSession(ctx, config), limit: limit}
	err = v.sendRequests()
	if why := errSpent(""); errors.As(err, &why) {
		v.notes = append(v.notes, fmt.Sprintf("Some checks were not finished, since %s.", why))
		err = nil
	}
	return v.result(), err
}

// verification checks whether an endpoint keeps a limit.
type verification struct {
	*session
	limit   store.Limit // normalized
	notes   []string
	apart   Verdict // of another subject's first request while one was denied; empty if there was none
	tried   []tried
	refills int
}

// proof is everything that the checks judge by.
type proof struct {
	*verification
	keys     []key
	readings map[*Event]*headers.Reading
	// certain is what is wrong of all answers for certain, and first of those up to the first denial of each subject.
	certain, first audit.Finding
}

// result returns the results of all checks.
func (v *verification) result() *Result {
	e := &proof{verification: v, keys: v.keysOf(), readings: make(map[*Event]*headers.Reading)}
	for i := range v.events {
		event := &v.events[i]
		e.readings[event] = v.read(event)
	}
	e.certain = e.audit(&v.limit, e.keys, nil).Finding()
	e.first = e.audit(&v.limit, firstDenials(e.keys), nil).Finding()
	r := &Result{Events: v.events, Notes: v.notes}
	if e.certain.UnderIfFree > 0 {
		r.Notes = append(r.Notes, "Denied requests count as well: who goes on asking waits longer.")
	}
	headers, dialects := e.headers()
	r.Dialects = dialects
	r.Checks = []Check{e.admitted(), e.denialStatus(), e.retryAfter(), headers, e.subjects(), e.sameClient(),
		e.recovery()}
	for _, c := range r.Checks {
		if c.Verdict == Unknown && (c.Required || v.config.Strict && !c.Moot) {
			r.Missing = append(r.Missing, c.Name)
		}
	}
	return r
}

// Overall is the verdict on the endpoint: Fail if a check failed, Pass if it was seen that the endpoint enforces its
// limit, something was seen of the period, and no required check is missing, and else Unknown, whatever the other
// checks say.
func (r *Result) Overall() Verdict {
	switch {
	case slices.ContainsFunc(r.Checks, func(c Check) bool { return c.Verdict == Fail }):
		return Fail
	case r.Enforced() && r.Timed() && len(r.Missing) == 0:
		return Pass
	}
	return Unknown
}

// Enforced reports whether the endpoint was seen to enforce its limit.
func (r *Result) Enforced() bool {
	return slices.ContainsFunc(r.Checks, func(c Check) bool { return c.Name == checkAdmitted && c.Verdict == Pass })
}

// Timed reports whether anything was seen of the limit's period: a recovery, or what answers say of it.
func (r *Result) Timed() bool {
	return slices.ContainsFunc(r.Checks, func(c Check) bool {
		return (c.Name == checkRecovery || c.Name == checkHeaders) && c.Verdict == Pass ||
			c.Name == checkRetryAfter && c.Verdict != Fail && !c.Moot
	})
}

// Unanswered is the error of a probe that sent requests, none of which was admitted or denied; else nil.
func Unanswered(events []Event) error {
	if len(events) == 0 || slices.ContainsFunc(events, func(e Event) bool { return e.Outcome != endpoint.Failed }) {
		return nil
	}
	return fmt.Errorf("no request was answered: %w", failure(&events[0]))
}

// failure is why a request was neither admitted nor denied.
func failure(e *Event) error {
	if e.Err != nil {
		return e.Err
	}
	return endpoint.NotAnswered(&e.Answer)
}

// unasked says that all answers were the same one, which may come from something in front of the limit; empty if not.
func unasked(events []Event) string {
	var first *Event
	for i := range events {
		switch e := &events[i]; {
		case e.Err != nil:
		case first == nil:
			first = e
		case e.Outcome != first.Outcome || e.Status != first.Status:
			return ""
		}
	}
	if first == nil || first.Status < http.StatusMultipleChoices {
		return ""
	}
	return fmt.Sprintf("every answer was %s, so the limit may not have been asked; are the URL, the method, the "+
		"headers and "+
		"the body right?", endpoint.StatusText(first.Status))
}

// denialStatus checks the status of denials.
func (e *proof) denialStatus() Check {
	want := e.config.DeniedStatus
	if want == 0 {
		want = http.StatusTooManyRequests
	}
	c := Check{Name: checkDenialStatus, Verdict: Unknown, Expected: fmt.Sprintf("status %d", want),
		Seen: "no request was denied"}
	odd, other, denials := 0, 0, 0
	for i := range e.events {
		if event := &e.events[i]; event.Outcome == endpoint.Denied {
			if denials++; event.Status != want {
				odd, other = event.Status, other+1
			}
		}
	}
	switch {
	case denials == 0:
		return c
	case e.config.DeniedHeader != "":
		c.Verdict, c.Expected = Pass, fmt.Sprintf("status %d or %s", want, e.config.DeniedHeader)
		c.Seen = c.Expected + " on " + output.Plural(denials, "denial")
	case other > 0 && odd == 0: // gRPC's OK
		c.Verdict, c.Expected, c.Seen = Pass, "OVER_LIMIT", "OVER_LIMIT on "+output.Plural(denials, "denial")
	case other > 0:
		c.Verdict, c.Seen = Fail, fmt.Sprintf("status %s on %d of %s; if that is meant, give --denied-status %d",
			endpoint.StatusText(odd), other, output.Plural(denials, "denial"), odd)
	default:
		c.Verdict, c.Seen = Pass, fmt.Sprintf("status %d on %s", want, output.Plural(denials, "denial"))
	}
	return c
}

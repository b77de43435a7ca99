package probe

import (
	"cmp"
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
	v := &verification{session: newSession(ctx, config), limit: limit, tried: map[string][]string{}}
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
	apart   Verdict             // of another subject's first request while one was denied; empty if there was none
	tried   map[string][]string // the names of other ways to ask, by what came of them
	refills int
	// staysOut says that a denied subject was not admitted again, so that there is nothing more to see.
	staysOut bool
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
	r := &Result{Events: v.events, Notes: v.notes}
	for i := range v.events {
		event := &v.events[i]
		e.readings[event] = v.read(event)
		r.Dialects = e.readings[event].AddDialects(r.Dialects)
	}
	e.certain = e.audit(&v.limit, e.keys, nil).Finding()
	e.first = e.audit(&v.limit, firstDenials(e.keys), nil).Finding()
	if e.certain.UnderIfFree > 0 {
		r.Notes = append(r.Notes, "Denied requests count as well: who goes on asking waits longer.")
	}
	r.Checks = []Check{e.admitted(), e.denialStatus(), e.retryAfter(), e.headers(r.Dialects), e.subjects(),
		e.sameClient(), e.recovery()}
	return r
}

// Overall is the verdict on the endpoint: Fail if a check failed, Pass if it was seen that the endpoint enforces its
// limit, and something of the period: a recovery, or what answers say of it. Else it is Unknown, and doubt says why.
func (r *Result) Overall() (verdict Verdict, doubt string) {
	any := func(is func(c *Check) bool) bool {
		return slices.ContainsFunc(r.Checks, func(c Check) bool { return is(&c) })
	}
	switch {
	case any(func(c *Check) bool { return c.Verdict == Fail }):
		return Fail, ""
	case Unanswered(r.Events) != nil:
		return Unknown, "no request was answered"
	case !any(func(c *Check) bool { return c.Name == checkAdmitted && c.Verdict == Pass }):
		return Unknown, "the limit was not seen to be enforced"
	case any(func(c *Check) bool { return c.Grave && c.Verdict == Unknown }):
		return Unknown, "another way to ask may let in who is denied"
	case !any(func(c *Check) bool {
		return (c.Name == checkRecovery || c.Name == checkHeaders) && c.Verdict == Pass ||
			c.Name == checkRetryAfter && c.Verdict != Fail && !c.Moot
	}):
		return Unknown, "nothing was seen of the period"
	}
	return Pass, ""
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
	answered := slices.DeleteFunc(slices.Clone(events), func(e Event) bool { return e.Err != nil })
	if len(answered) == 0 || answered[0].Status < http.StatusMultipleChoices ||
		slices.ContainsFunc(answered, func(e Event) bool {
			return e.Outcome != answered[0].Outcome || e.Status != answered[0].Status
		}) {
		return ""
	}
	status := answered[0].Status
	return fmt.Sprintf("every answer was %s, so the limit may not have been asked; are the URL, the method, the "+
		"headers and the body right? If that is how it denies, give --denied-status %d",
		endpoint.StatusText(status), status)
}

// toldToWait says that some of those who were admitted were told to wait, as those are who are denied; empty if not.
func toldToWait(events []Event) string {
	n := count(events, func(e Event) bool { return isAdmitted(e) && e.Header.Get("Retry-After") != "" })
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(", but %s had a Retry-After: if that is how it denies, add --denied-header Retry-After",
		output.Count(n, "answer"))
}

// denialStatus checks the status of denials.
func (e *proof) denialStatus() Check {
	want := cmp.Or(e.config.DeniedStatus, http.StatusTooManyRequests)
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
	if denials == 0 {
		return c
	}
	text := output.Count(denials, "denial")
	switch {
	case e.config.DeniedHeader != "":
		c.Expected += " or " + e.config.DeniedHeader
	case other > 0 && odd == 0: // gRPC's OK
		c.Expected = "OVER_LIMIT"
	case other > 0:
		return failed(c, fmt.Sprintf("status %s on %d of %s; if that is meant, give --denied-status %d",
			endpoint.StatusText(odd), other, text, odd))
	}
	c.Verdict, c.Seen = Pass, c.Expected+" on "+text
	return c
}

package probe

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/endpoint"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// The names of the checks, in the order in which they are told.
const (
	checkAdmitted     = "admitted"
	checkDenialStatus = "denial-status"
	checkRetryAfter   = "retry-after"
	checkHeaders      = "headers"
	checkDenialsCost  = "denials-cost"
	checkSubjects     = "subjects"
	checkRecovery     = "recovery"
)

// CheckNames returns the names of all checks, in the order in which they are told.
func CheckNames() []string {
	return []string{
		checkAdmitted, checkDenialStatus, checkRetryAfter, checkHeaders, checkDenialsCost, checkSubjects, checkRecovery,
	}
}

// Verify holds the endpoint to the limit of a discovery: by the answers that the discovery got,
// and by further requests where these leave something open. Without a limit it tells what can
// be told of the answers. What was seen until an error is in the result, which is never nil.
// A budget that is spent is no error.
func Verify(ctx context.Context, config *Config, discovery *Discovery) (*Result, error) {
	return verify(ctx, config, discovery, true)
}

// verify does so with further requests only if it may ask.
func verify(ctx context.Context, config *Config, discovery *Discovery, mayAsk bool) (*Result, error) {
	v := &verification{config: config, discovery: *discovery, session: newSession(ctx, config, discovery.Events)}
	var err error
	if discovery.Limit != nil {
		limit, wrong := discovery.Limit.Normalize()
		if wrong != nil {
			return &Result{Discovery: *discovery}, wrong
		}
		v.model = standard{limit: limit, phase: discovery.Phase, resolution: resolution}.withManner(discovery.Manner)
		if discovery.PhaseKnown && discovery.Phase != 0 {
			v.model.resolution += min(discovery.PhaseWithin, limit.Period/inexactly)
		}
		if !discovery.Exact {
			v.model.resolution += limit.Period / inexactly
		}
		if mayAsk {
			err = v.experiments()
		}
	}
	if errors.Is(err, errSpent) {
		why := "all requests that may be sent were sent"
		if errors.Is(err, errTime) {
			why = "the time that it may take does not suffice"
		}
		v.notes = append(v.notes, fmt.Sprintf("Some checks were not finished, since %s.", why))
		err = nil
	}
	return v.result(), err
}

// inexactly is which part of a period that is not known exactly may be wrong.
const inexactly = 50

// verification holds an endpoint to a limit.
type verification struct {
	*session
	config    *Config
	discovery Discovery
	model     standard // without a limit if there is none
	notes     []string
}

// proof is all that checks are judged by.
type proof struct {
	config *Config
	hasLimit,
	// exact: count and period of the limit are known exactly.
	exact bool
	model standard
	// alternatives are limits that answer alike.
	alternatives []store.Limit
	keys         []key
	// judged is what came of the keys, in the same order; none without a limit.
	judged []*judgement
	// wrong is how many units the limit does not explain if denials cost nothing, and if they do.
	wrong, wrongIfCharged int64
	// sharing is the check of subjects.
	sharing Check
	// canChoose: who asks stands in the request.
	canChoose bool
	readings  map[*Event]*fieldReading
	skew      time.Duration
}

// proof judges what was seen until now.
func (v *verification) proof() *proof {
	e := &proof{config: v.config, hasLimit: v.discovery.Limit != nil, exact: v.discovery.Exact, model: v.model,
		alternatives: v.discovery.Alternatives, canChoose: v.canChoose(), readings: make(map[*Event]*fieldReading)}
	e.keys = keysOf(v.events, e.canChoose)
	for i := range v.events {
		event := &v.events[i]
		if i == 0 {
			e.skew = skewOf(event.Header, event.Sent, event.Answered)
		}
		r := readHeader(event.Header, event.Answered, e.skew)
		r.readLimits(event.Limits)
		e.readings[event] = &r
	}
	if !e.hasLimit {
		e.sharing = e.subjects()
		return e
	}
	e.fit(v.discovery.PhaseKnown)
	e.sharing = e.judgeSubjects(v.discovery.PhaseKnown)
	return e
}

// canChoose reports whether who asks stands in the request.
func (v *verification) canChoose() bool { return choosesSubjects(v.config.Client) }

// choosesSubjects reports whether a client's requests say who asks.
func choosesSubjects(client endpoint.Client) bool {
	if templated, is := client.(interface{ Places() (subject, cost bool) }); is {
		subject, _ := templated.Places()
		return subject
	}
	return true
}

// result is what all checks say.
func (v *verification) result() *Result {
	e := v.proof()
	r := &Result{Discovery: v.discovery}
	r.Events, r.Notes = v.events, append(r.Notes[:len(r.Notes):len(r.Notes)], v.notes...)
	if e.hasLimit && !v.discovery.PhaseKnown && e.model.phase != 0 && e.wrong == 0 {
		r.Notes = append(r.Notes, fmt.Sprintf("The windows do not begin at whole periods since 1970, but about %s later.",
			span(e.model.phase)))
	}
	if discovered := v.discovery.Manner != (Manner{}); e.hasLimit && !discovered && e.model.by != (Manner{}) {
		m := model{limit: e.model.limit, Manner: e.model.by}
		r.Notes = append(r.Notes, "What was seen is as of the limit, and "+strings.Join(m.peculiarities(), ", and ")+".")
	}
	if other := e.others(v.discovery.PhaseKnown); other != "" {
		r.Notes = append(r.Notes, "The answers are as of "+other+".")
	}
	headers, dialects := e.headers()
	r.Dialects = dialects
	if len(dialects) > 0 {
		r.Dialect = dialects[0]
	}
	r.Checks = []Check{e.admitted(), e.denialStatus(), e.retryAfter(), headers, e.denialsCost(), e.sharing, e.recovery()}
	return r
}

// denialStatus is the check of the status that denials have.
func (e *proof) denialStatus() Check {
	want := e.config.DeniedStatus
	if want == 0 {
		want = http.StatusTooManyRequests
	}
	c := Check{Name: checkDenialStatus, Verdict: Unknown, Expected: fmt.Sprintf("status %d", want), Seen: "no request was denied"}
	other, denials := make(map[int]int), 0
	for i := range e.keys {
		for _, event := range e.keys[i].events {
			if event.Outcome != endpoint.Denied {
				continue
			}
			if denials++; event.Status != want {
				other[event.Status]++
			}
		}
	}
	switch {
	case denials == 0:
		return c
	case other[0] == denials: // gRPC's OK
		c.Verdict, c.Expected, c.Seen = Pass, "OVER_LIMIT", "OVER_LIMIT on "+counted(denials, "denial")
		return c
	}
	c.Verdict, c.Seen = Pass, fmt.Sprintf("status %d on %s", want, counted(denials, "denial"))
	for status, n := range other {
		c.Verdict, c.Seen = Fail, fmt.Sprintf("status %d on %d of %s", status, n, counted(denials, "denial"))
		if text := http.StatusText(status); text != "" {
			c.Seen = fmt.Sprintf("status %d (%s) on %d of %s", status, text, n, counted(denials, "denial"))
		}
	}
	return c
}

// counted is a count with its noun.
func counted(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}

// span writes a duration to the precision that matters in a sentence.
func span(d time.Duration) string {
	switch {
	case d < 0:
		return "-" + span(-d)
	case d >= time.Hour:
		d = d.Round(time.Second)
	case d >= 10*time.Second:
		d = d.Round(100 * time.Millisecond)
	case d >= time.Second:
		d = d.Round(10 * time.Millisecond)
	default:
		d = d.Round(time.Millisecond)
	}
	if d >= time.Minute && d%time.Second == 0 {
		return store.FormatPeriod(d)
	}
	if d >= time.Minute {
		return d.String()
	}
	if d >= time.Second {
		return fmt.Sprintf("%g s", d.Seconds())
	}
	return fmt.Sprintf("%d ms", d.Milliseconds())
}

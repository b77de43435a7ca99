package probe

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/endpoint"
	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/cmd/internal/probe/explain"
	"github.com/limitctl/limitctl/cmd/internal/probe/headers"
	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/loadgen/audit"
)

// The names of the checks, in the order in which they are printed.
const (
	checkAdmitted     = "admitted"
	checkDenialStatus = "denial-status"
	checkRetryAfter   = "retry-after"
	checkHeaders      = "headers"
	checkDenialsCost  = "denials-cost"
	checkSubjects     = "subjects"
	checkSimilarNames = "similar-names"
	checkConnections  = "connections"
	checkAtOnce       = "at-once"
	checkMethods      = "methods"
	checkCosts        = "costs"
	checkRecovery     = "recovery"
)

// CheckNames returns the names of all checks, in the order in which they are printed.
func CheckNames() []string {
	return []string{checkAdmitted, checkDenialStatus, checkRetryAfter, checkHeaders, checkDenialsCost, checkSubjects, checkSimilarNames,
		checkConnections, checkAtOnce, checkMethods, checkCosts, checkRecovery}
}

// verify checks whether the endpoint keeps the limit of a discovery: by the answers that the discovery got and, if
// mayAsk, by further requests for what these leave open. Without a limit it checks what needs none. After an error
// the result has what was seen until then; it is never nil. A used-up quota is no error.
func verify(ctx context.Context, config *Config, discovery *Discovery, mayAsk bool) (*Result, error) {
	v := &verification{config: config, discovery: *discovery, session: newSession(ctx, config, discovery.Events)}
	var err error
	if discovery.Limit != nil {
		limit, wrong := discovery.Limit.Normalize()
		if wrong != nil {
			return &Result{Discovery: *discovery}, wrong
		}
		v.model = explain.Expectation{Model: explain.ModelOf(limit), Resolution: explain.Resolution}
		switch {
		case config.Limit == nil:
			v.model.Phase = discovery.Phase
			v.model = v.model.WithBehaviour(discovery.Behaviour)
		case limit.Phase != 0:
			v.discovery.Phase, v.discovery.PhaseWithin, v.discovery.PhaseKnown = limit.Phase, limit.PhaseWithin(), true
			v.model.PhaseWithin = limit.PhaseWithin()
		}
		if config.Limit == nil && discovery.PhaseKnown && discovery.Phase != 0 {
			v.model.Resolution += min(discovery.PhaseWithin, limit.Period/inexactly)
		}
		if !discovery.Exact {
			v.model.Resolution += limit.Period / inexactly
		}
		for _, other := range discovery.Beside {
			if other, wrong = other.Normalize(); wrong != nil {
				return &Result{Discovery: *discovery}, wrong
			}
			beside := explain.Expectation{Model: explain.ModelOf(other)}
			if config.Limit != nil && other.Phase != 0 {
				beside.PhaseWithin = other.PhaseWithin()
			}
			v.model.Beside = append(v.model.Beside, beside)
		}
		if mayAsk {
			err = v.sendRequests()
		}
	}
	if errors.Is(err, errSpent) {
		why := "all allowed requests were sent"
		if errors.Is(err, errTime) {
			why = "the time was too short"
		}
		v.notes = append(v.notes, fmt.Sprintf("Some checks were not finished, since %s.", why))
		err = nil
	}
	return v.result(), err
}

// inexactly is the fraction of a period by which an inexact period may be wrong.
const inexactly = 50

// verification checks whether an endpoint keeps a limit.
type verification struct {
	*session
	config    *Config
	discovery Discovery
	model     explain.Expectation // without a limit if there is none
	notes     []string
	tried     []Check // by the trials
	// fitted is what explained most last, of several limits. unexplained is the number of events then if something was left; 0 if
	// not.
	fitted      explain.Expectation
	unexplained int
}

// proof is everything that the checks judge by.
type proof struct {
	config *Config
	hasLimit,
	// exact: the count and the period of the limit are known exactly.
	exact bool
	// guessed: the limit was not given but found, and it does not explain all answers, or something of it is not known
	// exactly; or it is an open question whether some phase of its windows explains them. Then nothing is called wrong
	// because of it.
	guessed bool
	model   explain.Expectation
	// alternatives are limits that give the same answers.
	alternatives []store.Limit
	keys         []explain.Key
	// judged are the judgements of the keys, in the same order; empty without a limit.
	judged []*explain.Judgement
	// wrong is the number of units that the limit does not explain if denials cost nothing, and wrongIfCharged if
	// they do.
	wrong, wrongIfCharged int64
	// promptly is the number of units too many if each request was decided when it came and waited after that.
	promptly int64
	// certain returns what the interval audit is sure of: what is wrong at whatever instants the requests were decided. It is
	// nil for a limit with a behaviour that no word of a limit describes, which that audit does not know. The first call
	// audits, which takes long.
	certain func() *audit.Finding
	// sharing is the check of subjects.
	sharing Check
	// canChoose: the request names the subject.
	canChoose bool
	readings  map[*explain.Event]*headers.Reading
	skew      time.Duration
}

// proof judges what was seen so far.
func (v *verification) proof() *proof {
	defer v.judged(v.clock.Now())
	e := &proof{config: v.config, hasLimit: v.discovery.Limit != nil, exact: v.discovery.Exact, model: v.model,
		alternatives: v.discovery.Alternatives, canChoose: v.canChoose(), readings: make(map[*explain.Event]*headers.Reading)}
	e.keys = explain.KeysOf(v.events, e.canChoose)
	for i := range v.events {
		event := &v.events[i]
		if i == 0 {
			e.skew = headers.SkewOf(event.Header, event.Sent, event.Answered)
		}
		r := headers.Read(event.Header, event.Answered, e.skew)
		r.ReadLimits(event.Limits)
		e.readings[event] = &r
	}
	if !e.hasLimit {
		e.sharing = e.subjects()
		return e
	}
	v.fit(e)
	e.sharing = e.judgeSubjects(v.discovery.PhaseKnown)
	e.fitPromptly(v.discovery.PhaseKnown)
	e.certain = sync.OnceValue(e.proven)
	if e.guessed = v.config.Limit == nil && (!e.exact || e.least() > 0); e.least() > 0 && !e.guessed {
		certain := e.certain()
		e.guessed = certain != nil && certain.LeastOver+certain.LeastUnder == 0
	}
	return e
}

// canChoose reports whether the request names the subject.
func (v *verification) canChoose() bool { return choosesSubjects(v.config.Client) }

// choosesSubjects reports whether the requests of a client name the subject.
func choosesSubjects(client endpoint.Client) bool {
	if templated, is := client.(interface{ Places() (subject, cost bool) }); is {
		subject, _ := templated.Places()
		return subject
	}
	return true
}

// Overall is the verdict on the endpoint: Fail if a check failed, Pass if it was seen that the endpoint enforces its
// limit and no required check is missing, and else Unknown, whatever the other checks say.
func (r *Result) Overall() Verdict {
	switch {
	case slices.ContainsFunc(r.Checks, func(c Check) bool { return c.Verdict == Fail }):
		return Fail
	case r.Enforced() && len(r.Missing) == 0:
		return Pass
	}
	return Unknown
}

// Enforced reports whether the endpoint was seen to enforce its limit.
func (r *Result) Enforced() bool {
	return slices.ContainsFunc(r.Checks, func(c Check) bool { return c.Name == checkAdmitted && c.Verdict == Pass })
}

// result returns the results of all checks.
func (v *verification) result() *Result {
	v.unexplained = 0
	e := v.proof()
	if e.hasLimit && e.least() == 0 { // else the phase does not matter
		e.judged = e.model.Widened(e.keys, e.judged)
	}
	r := &Result{Discovery: v.discovery}
	r.Events, r.Notes = v.events, append(r.Notes[:len(r.Notes):len(r.Notes)], v.notes...)
	if e.hasLimit && !v.discovery.PhaseKnown && e.model.Phase != 0 && e.wrong == 0 {
		r.Notes = append(r.Notes, fmt.Sprintf("The windows do not begin at whole periods since 1970, but about %s later.",
			span(e.model.Phase)))
	}
	none := explain.Behaviour{}
	if e.hasLimit && v.discovery.Behaviour == none && e.model.Behaviour != none {
		m := explain.Model{Limit: e.model.Limit, Behaviour: e.model.Behaviour}
		r.Notes = append(r.Notes, "The answers fit the limit, and "+strings.Join(m.Peculiarities(), ", and ")+".")
	}
	if other := e.others(v.discovery.PhaseKnown); other != "" {
		r.Notes = append(r.Notes, "The answers fit "+other+".")
	}
	r.Notes = append(r.Notes, e.noteOthersTold()...)
	headers, dialects := e.headers()
	r.Dialects = dialects
	if len(dialects) > 0 {
		r.Dialect = dialects[0]
	}
	r.Checks = []Check{e.admitted(), e.denialStatus(), e.retryAfter(), headers, e.denialsCost(), e.sharing}
	r.Checks = append(append(r.Checks, v.trialChecks(e)...), e.recovery())
	for _, c := range r.Checks {
		if c.Verdict == Unknown && (slices.Contains(v.config.Require, c.Name) || v.config.Strict && !c.Moot) {
			r.Missing = append(r.Missing, c.Name)
		}
	}
	return r
}

// denialStatus checks the status of denials.
func (e *proof) denialStatus() Check {
	want := e.config.DeniedStatus
	if want == 0 {
		want = http.StatusTooManyRequests
	}
	c := Check{Name: checkDenialStatus, Verdict: Unknown, Expected: fmt.Sprintf("status %d", want), Seen: "no request was denied"}
	other, denials := make(map[int]int), 0
	for i := range e.keys {
		for _, event := range e.keys[i].Events {
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
		c.Verdict, c.Expected, c.Seen = Pass, "OVER_LIMIT", "OVER_LIMIT on "+output.Plural(denials, "denial")
		return c
	}
	c.Verdict, c.Seen = Pass, fmt.Sprintf("status %d on %s", want, output.Plural(denials, "denial"))
	for status, n := range other {
		c.Verdict, c.Seen = Fail, fmt.Sprintf("status %d on %d of %s", status, n, output.Plural(denials, "denial"))
		if text := http.StatusText(status); text != "" {
			c.Seen = fmt.Sprintf("status %d (%s) on %d of %s", status, text, n, output.Plural(denials, "denial"))
		}
	}
	return c
}

// Run finds out what limit the endpoint has, unless the configuration gives it, and checks the endpoint. After an
// error the result has what was seen until then. If there is no limit to be found, the error is an [ErrNoLimit], and
// the result has the checks that need no limit.
func Run(ctx context.Context, config *Config) (*Result, error) {
	discovery := &Discovery{Limit: config.Limit, Beside: config.Beside, Exact: true}
	var failure error
	if config.Limit == nil {
		discovery, failure = discoverLimit(ctx, config)
	}
	result, err := verify(ctx, config, discovery, failure == nil)
	if failure == nil {
		failure = err
	}
	return result, failure
}

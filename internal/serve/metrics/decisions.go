package metrics

import (
	"errors"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/limitctl/limitctl/internal/decision"
	"github.com/limitctl/limitctl/internal/layers"
	"github.com/limitctl/limitctl/internal/serve/engine"
	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

var (
	// nonePolicy stands for calls with a key and limits that the caller chose. No configuration has names with
	// parentheses.
	nonePolicy = &policy.Policy{Name: "(none)", Limits: []policy.Limit{{Limit: limiter.Limit{Name: "(none)"}}}}
	// unknownPolicy stands for names that callers invented.
	unknownPolicy = &policy.Policy{Name: "(unknown)"}
)

var (
	// operations are the operations of a call as labels; see operationOf.
	operations = []string{"consume", "check", "refund", "settle"}
	// results are the results of a whole call.
	results = []string{"allowed", "denied", "error"}
	// outcomes are the outcomes of one limit in one call; see outcomeOf.
	outcomes = []string{"allowed", "denied", "shadow-denied", "local", "local-denied", "unguarded", "unguarded-denied",
		"blocked",
		"not-asked", "error"}
	// errorKinds are the kinds of errors, those of [layers.Call.Outcome].
	errorKinds = []string{"invalid", "unavailable", "outcome-unknown", "gave-up", "gave-up-unknown", "refused",
		"foreign", "error"}
)

// series names a policy or a limit of it, which is empty for the policy.
type series struct{ policy, limit string }

// Configure makes series for the names in settings, before they decide anything, and removes those of other policies
// and limits. newBreaker says that the breaker is new, or that there is none. It is for [engine.Options].
func (m *Metrics) Configure(settings *engine.Settings, newBreaker bool) {
	if settings == nil {
		settings = &engine.Settings{}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	before := m.known
	m.known = map[series]bool{}
	for _, p := range slices.Concat([]*policy.Policy{nonePolicy, unknownPolicy, engine.DenyPolicy}, settings.Policies) {
		m.begin(p)
	}
	for s := range before {
		if !m.known[s] {
			m.forget(s)
		}
	}
	m.errors.WithLabelValues(unknownPolicy.Name, "unknown-policy")
	if newBreaker {
		m.breakerState.Reset()
		m.parts = map[string]bool{}
		if settings.Breaker != nil {
			m.setBreaker("", limiter.BreakerClosed)
		}
	}
}

// begin makes the series of a policy in force, so that their first increase is visible. The caller holds the lock.
func (m *Metrics) begin(p *policy.Policy) {
	m.known[series{policy: p.Name}] = true
	m.took.WithLabelValues(p.Name)
	for _, operation := range operations {
		for _, result := range results {
			m.calls.WithLabelValues(p.Name, operation, result)
		}
	}
	for _, kind := range errorKinds {
		if p != unknownPolicy {
			m.errors.WithLabelValues(p.Name, kind)
		}
	}
	for i := range p.Limits {
		l := &p.Limits[i]
		m.known[series{p.Name, l.Name}] = true
		m.granted.WithLabelValues(p.Name, l.Name)
		for _, outcome := range outcomes {
			m.decisions.WithLabelValues(p.Name, l.Name, outcome)
		}
	}
}

// forget deletes the series of a policy or limit that was removed.
func (m *Metrics) forget(s series) {
	labels := prometheus.Labels{"policy": s.policy}
	if s.limit != "" {
		labels["limit"] = s.limit
	}
	for _, vec := range []*prometheus.MetricVec{m.decisions.MetricVec, m.granted.MetricVec,
		m.calls.MetricVec, m.errors.MetricVec, m.took.MetricVec} {
		vec.DeletePartialMatch(labels)
	}
}

// Decided counts one call. It is for [engine.Options]. A call under way whose policy was removed
// is not counted.
func (m *Metrics) Decided(ask *engine.Ask, answer *decision.Answer, err error, took time.Duration) {
	p := answer.Policy
	switch {
	case ask.Policy == "":
		p = nonePolicy
	case p == nil || errors.Is(err, engine.ErrUnknownPolicy):
		p = unknownPolicy
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	if !m.known[series{policy: p.Name}] {
		return
	}
	m.took.WithLabelValues(p.Name).Observe(took.Seconds())
	operation, result := operationOf(ask.Op), "allowed"
	switch {
	case err != nil:
		result = "error"
		m.errors.WithLabelValues(p.Name, errorKind(err)).Inc()
	case !store.AllAllowed(answer.Decisions):
		result = "denied"
	}
	m.calls.WithLabelValues(p.Name, operation, result).Inc()
	if operation != "consume" {
		return
	}
	if err != nil && errorKind(err) != "invalid" { // a mistake of the caller says nothing about the limits
		for i := range p.Limits {
			m.countLimit(p, &p.Limits[i], "error")
		}
	}
	for i := range answer.Decisions {
		l, d := &p.Limits[min(i, len(p.Limits)-1)], &answer.Decisions[i]
		if answer.IsShared(i) || !m.countLimit(p, l, outcomeOf(d)) {
			continue
		}
		if d.Granted > 0 && !d.Repeated {
			m.granted.WithLabelValues(p.Name, l.Name).Add(float64(d.Granted))
		}
	}
}

// countLimit counts an outcome of a limit, and reports whether the limit has series. The caller holds the lock.
func (m *Metrics) countLimit(p *policy.Policy, l *policy.Limit, outcome string) bool {
	has := m.known[series{p.Name, l.Name}]
	if has {
		m.decisions.WithLabelValues(p.Name, l.Name, outcome).Inc()
	}
	return has
}

// outcomeOf returns the outcome of a limit in a call.
func outcomeOf(d *store.Decision) string {
	switch {
	case d.Unguarded && d.DecidedBy != store.DecidedByFailurePolicy:
		return "not-asked" // another limit of the call had already denied
	case d.Unguarded && (d.Allowed || d.Shadow):
		return "unguarded" // the store was away, and the policy allows
	case d.Unguarded:
		return "unguarded-denied"
	case !d.Allowed && d.Shadow:
		return "shadow-denied"
	case d.DecidedBy == store.DecidedByLocal && d.Allowed:
		return "local" // the store was away, and the local share had room
	case d.DecidedBy == store.DecidedByLocal:
		return "local-denied"
	case d.Allowed:
		return "allowed"
	case d.Override != nil && d.Override.Effect == store.OverrideBlock:
		return "blocked"
	}
	return "denied"
}

func operationOf(op store.Op) string {
	switch op {
	case store.Peek:
		return "check"
	case store.Refund, store.Adjust:
		return "refund"
	case store.Settle:
		return "settle"
	default:
		return "consume"
	}
}

func errorKind(err error) string {
	if errors.Is(err, engine.ErrUnknownPolicy) {
		return "unknown-policy"
	}
	call := layers.Call{Err: err}
	return call.Outcome()
}

package metrics

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/limitctl/limitctl/cmd/internal/decision"
	"github.com/limitctl/limitctl/cmd/internal/serve/engine"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Values of the labels policy and limit without a configured name. No configuration has names with parentheses.
const (
	noPolicy      = "(none)"    // a key and limits that the caller chose
	unknownPolicy = "(unknown)" // a name that the caller invented
)

// decisionMetrics count calls by policy and limit.
type decisionMetrics struct {
	decisions, checks *prometheus.CounterVec // by policy, limit, outcome
	granted, warnings *prometheus.CounterVec // by policy, limit
	byClass           *prometheus.CounterVec // by policy, limit, class, outcome
	calls             *prometheus.CounterVec // by policy, operation, result
	errors            *prometheus.CounterVec // by policy, kind
	took              *prometheus.HistogramVec
}

func (d *decisionMetrics) register(r prometheus.Registerer) {
	byOutcome := []string{"policy", "limit", "outcome"}
	d.decisions = prometheus.NewCounterVec(counter("decisions_total",
		"Decisions about requests that are to be charged, by limit. A request under several limits counts once for each."), byOutcome)
	d.checks = prometheus.NewCounterVec(counter("checks_total",
		"Decisions about requests that are never charged, by limit: what would have been decided."), byOutcome)
	d.granted = prometheus.NewCounterVec(counter("granted_units_total", "Units charged, by limit."), []string{"policy", "limit"})
	d.warnings = prometheus.NewCounterVec(counter("warnings_total",
		"Decisions after which as much of a limit was used as its field warn says, by limit. Limits without it have no series."),
		[]string{"policy", "limit"})
	d.byClass = prometheus.NewCounterVec(counter("class_decisions_total",
		"Decisions about requests that are to be charged, by class, for limits that have classes. Any other class counts as other."),
		[]string{"policy", "limit", "class", "outcome"})
	d.calls = prometheus.NewCounterVec(counter("calls_total",
		"Calls of all limits of a policy together, by what was asked and its result."), []string{"policy", "operation", "result"})
	d.errors = prometheus.NewCounterVec(counter("errors_total",
		"Calls that had an error for an answer, by its kind."), []string{"policy", "kind"})
	d.took = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "limitctl_decision_duration_seconds", Help: "Time that a call took, with the store's.", Buckets: durations,
	}, []string{"policy"})
	r.MustRegister(d.decisions, d.checks, d.granted, d.warnings, d.byClass, d.calls, d.errors, d.took)
}

// countedLimit has the counters of one limit.
type countedLimit struct {
	decisions, checks [outcomes]prometheus.Counter
	granted           prometheus.Counter
	classes           map[string]*byOutcome // of all that had series; the lock guards it
	retired           time.Time             // zero while it is in force
}

// countedPolicy has the counters of one policy.
type countedPolicy struct {
	calls   [operations][results]prometheus.Counter
	errors  map[string]prometheus.Counter
	took    prometheus.Observer
	limits  map[string]*countedLimit // including those no longer in force
	retired time.Time                // zero while it is in force
}

func (d *decisionMetrics) policy(name string) *countedPolicy {
	p := &countedPolicy{took: d.took.WithLabelValues(name), errors: map[string]prometheus.Counter{}, limits: map[string]*countedLimit{}}
	for op, operation := range operationWords {
		for i, result := range resultWords {
			p.calls[op][i] = d.calls.WithLabelValues(name, operation, result)
		}
	}
	for _, kind := range errorWords {
		if (kind == unknownPolicyError) == (name == unknownPolicy) {
			p.errors[kind] = d.errors.WithLabelValues(name, kind)
		}
	}
	return p
}

func (d *decisionMetrics) limit(policy, name string) *countedLimit {
	l := &countedLimit{granted: d.granted.WithLabelValues(policy, name)}
	for i, outcome := range outcomeWords {
		l.decisions[i] = d.decisions.WithLabelValues(policy, name, outcome)
		l.checks[i] = d.checks.WithLabelValues(policy, name, outcome)
	}
	return l
}

// forgetLimit removes the series of a limit.
func (d *decisionMetrics) forgetLimit(policy, name string) {
	for _, outcome := range outcomeWords {
		d.decisions.DeleteLabelValues(policy, name, outcome)
		d.checks.DeleteLabelValues(policy, name, outcome)
	}
	d.granted.DeleteLabelValues(policy, name)
	d.warnings.DeleteLabelValues(policy, name)
	d.byClass.DeletePartialMatch(prometheus.Labels{"policy": policy, "limit": name})
}

// forgetPolicy removes the series of a policy whose limits are already removed.
func (d *decisionMetrics) forgetPolicy(name string) {
	for _, operation := range operationWords {
		for _, result := range resultWords {
			d.calls.DeleteLabelValues(name, operation, result)
		}
	}
	for _, kind := range errorWords {
		d.errors.DeleteLabelValues(name, kind)
	}
	d.took.DeleteLabelValues(name)
}

// countedInForce has the counters of a policy in force, in the order of its limits.
type countedInForce struct {
	*countedPolicy
	ordered []*countedLimit
	// warnings are of the same limits, nil for those that do not warn; nil if none does.
	warnings []prometheus.Counter
	// classes are of the same limits, nil for those without; nil if none has any.
	classes []*countedClasses
}

// Decided counts one call. It is for [engine.Options].
func (m *Metrics) Decided(ask *engine.Ask, answer *decision.Answer, err error, took time.Duration) {
	counted := m.of(ask, answer, err)
	counted.took.Observe(took.Seconds())
	calls := &counted.calls[operationOf(ask.Op)]
	if err != nil {
		calls[callFailed].Inc()
		counted.fail(ask.Op, err)
		return
	}
	if store.AllAllowed(answer.Decisions) {
		calls[callAllowed].Inc()
	} else {
		calls[callDenied].Inc()
	}
	counts := countsOf(ask.Op)
	if counts == countsNothing {
		return
	}
	for i := range answer.Decisions {
		if answer.IsShared(i) {
			continue
		}
		limit := counted.ordered[min(i, len(counted.ordered)-1)]
		d := &answer.Decisions[i]
		if counts == countsCheck {
			limit.checks[outcomeOf(d)].Inc()
			continue
		}
		limit.decisions[outcomeOf(d)].Inc()
		if counted.classes != nil && counted.classes[i] != nil {
			counted.classes[i].count(ask.Attributes, outcomeOf(d))
		}
		if d.Granted > 0 && !d.Repeated {
			limit.granted.Add(float64(d.Granted))
		}
		if counted.warnings != nil && counted.warnings[i] != nil && answer.Policy.Limits[i].Warns(d, answer.Capacity(i)) {
			counted.warnings[i].Inc()
		}
	}
}

// counting selects the counters of a limit for a call.
type counting uint8

const (
	countsNothing counting = iota // refunds and settlements decide nothing
	countsDecision
	countsCheck
)

func countsOf(op store.Op) counting {
	switch operationOf(op) {
	case consume:
		return countsDecision
	case check:
		return countsCheck
	default:
		return countsNothing
	}
}

// fail counts an error. A mistake of the caller says nothing about the limits.
func (c *countedInForce) fail(op store.Op, err error) {
	word := errorWord(err)
	if c.errors[word] != nil {
		c.errors[word].Inc()
	}
	if errors.Is(err, engine.ErrUnknownPolicy) || word == "invalid" {
		return
	}
	switch countsOf(op) {
	case countsNothing:
	case countsDecision:
		for _, limit := range c.ordered {
			limit.decisions[failed].Inc()
		}
	case countsCheck:
		for _, limit := range c.ordered {
			limit.checks[failed].Inc()
		}
	}
}

// of returns the counters for a call.
func (m *Metrics) of(ask *engine.Ask, answer *decision.Answer, err error) *countedInForce {
	v := m.inForce.Load()
	switch {
	case ask.Policy == "":
		return &v.none
	case answer.Policy == nil || err != nil && errors.Is(err, engine.ErrUnknownPolicy):
		return &v.unknown
	}
	if counted := v.byPolicy[answer.Policy]; counted != nil {
		return counted
	}
	return m.retired(v, answer.Policy)
}

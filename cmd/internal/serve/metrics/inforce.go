package metrics

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/limitctl/limitctl/cmd/internal/serve/engine"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
)

const (
	// keepRetired is how long the series of a removed policy or limit stay, so that Prometheus scrapes their last
	// values.
	keepRetired = 10 * time.Minute
	// mostRetired is the most removed limits that have series, however often the configuration changes.
	mostRetired = 500
)

// view is the settings in force with their counters. It is immutable.
type view struct {
	settings      *engine.Settings
	byPolicy      map[*policy.Policy]*countedInForce
	none, unknown countedInForce
}

// Configure makes series for the names in settings, before they decide anything. Series of removed policies and
// limits stay for some minutes. newBreaker says that the breaker is new, or that there is none. It is for
// [engine.Options].
func (m *Metrics) Configure(settings *engine.Settings, newBreaker bool) {
	if settings == nil {
		settings = &engine.Settings{}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.clock()
	for _, p := range m.known {
		p.retire(now)
	}
	v := &view{settings: settings, byPolicy: map[*policy.Policy]*countedInForce{}}
	v.none = m.counted(&policy.Policy{Name: noPolicy, Limits: []policy.Limit{{Name: noPolicy}}})
	v.unknown = m.counted(&policy.Policy{Name: unknownPolicy})
	for _, p := range settings.Policies {
		counted := m.counted(p)
		v.byPolicy[p] = &counted
	}
	for _, p := range settings.Deniers() {
		counted := m.counted(p)
		v.byPolicy[p] = &counted
	}
	m.inForce.Store(v)
	m.forget(now)
	if newBreaker {
		m.breaker.begin(settings.Breaker != nil)
	}
}

// counted returns the counters of a policy in force. The caller holds the lock.
func (m *Metrics) counted(p *policy.Policy) countedInForce {
	known := m.known[p.Name]
	if known == nil {
		known = m.decisions.policy(p.Name)
		m.known[p.Name] = known
	}
	known.retired = time.Time{}
	counted := countedInForce{countedPolicy: known}
	for i := range p.Limits {
		name := p.Limits[i].Name
		limit := known.limits[name]
		if limit == nil {
			limit = m.decisions.limit(p.Name, name)
			known.limits[name] = limit
		}
		limit.retired = time.Time{}
		counted.ordered = append(counted.ordered, limit)
		if classes := m.decisions.classesOf(p, &p.Limits[i], limit); classes != nil {
			if counted.classes == nil {
				counted.classes = make([]*countedClasses, len(p.Limits))
			}
			counted.classes[i] = classes
		}
		if p.Limits[i].Warn != 0 {
			if counted.warnings == nil {
				counted.warnings = make([]prometheus.Counter, len(p.Limits))
			}
			counted.warnings[i] = m.decisions.warnings.WithLabelValues(p.Name, name)
		}
	}
	return counted
}

// retire notes that the policy and its limits are no longer in force.
func (p *countedPolicy) retire(now time.Time) {
	if p.retired.IsZero() {
		p.retired = now
	}
	for _, l := range p.limits {
		if l.retired.IsZero() {
			l.retired = now
		}
	}
}

// retired returns the counters of a policy that was in force when a call began, and is removed now. If they are
// already forgotten, the call counts as one without a policy.
func (m *Metrics) retired(v *view, p *policy.Policy) *countedInForce {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.known[p.Name]
	if known == nil {
		return &v.none
	}
	counted := &countedInForce{countedPolicy: known}
	for i := range p.Limits {
		limit := known.limits[p.Limits[i].Name]
		if limit == nil {
			return &v.none
		}
		counted.ordered = append(counted.ordered, limit)
	}
	return counted
}

// forgetRetired removes series that were retired long ago.
func (m *Metrics) forgetRetired() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forget(m.clock())
}

// forget is forgetRetired. The caller holds the lock.
func (m *Metrics) forget(now time.Time) {
	left := 0
	for name, p := range m.known {
		for limit, l := range p.limits {
			if l.retired.IsZero() {
				continue
			}
			if left++; left > mostRetired || now.Sub(l.retired) >= keepRetired {
				left--
				m.decisions.forgetLimit(name, limit)
				delete(p.limits, limit)
			}
		}
		if !p.retired.IsZero() && len(p.limits) == 0 {
			m.decisions.forgetPolicy(name)
			delete(m.known, name)
		}
	}
}

// WatchOverrides adds a metric that shows whether overrides cannot be read.
func (m *Metrics) WatchOverrides(stale func() bool) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(gauge("overrides_stale",
		"1 if operators' overrides cannot be read, so that new ones do not apply."), func() float64 {
		if stale() {
			return 1
		}
		return 0
	}))
}

const (
	// mostClasses is the most classes of a limit that have series of their own, however often the configuration changes.
	mostClasses = 50
	// otherClass has the decisions about all other requests: of no class that the limit has, or of one without a series.
	otherClass = "other"
)

// byOutcome has a counter for each outcome.
type byOutcome [outcomes]prometheus.Counter

// countedClasses has the counters of a limit by class. It is immutable, and nil for a limit without classes.
type countedClasses struct {
	by      string
	classes map[string]*byOutcome
}

// classesOf returns the counters of a limit's classes. The caller holds the lock.
func (d *decisionMetrics) classesOf(p *policy.Policy, l *policy.Limit, limit *countedLimit) *countedClasses {
	if l.Classes.IsZero() {
		return nil
	}
	counted := &countedClasses{l.Classes.By, map[string]*byOutcome{}}
	if limit.classes == nil {
		limit.classes = map[string]*byOutcome{}
	}
	add := func(name string) {
		counters := limit.classes[name]
		if counters == nil {
			if len(limit.classes) > mostClasses { // with the one for all others
				return
			}
			counters = new(byOutcome)
			for i, outcome := range outcomeWords {
				counters[i] = d.byClass.WithLabelValues(p.Name, l.Name, strings.ToValidUTF8(name, "?"), outcome)
			}
			limit.classes[name] = counters
		}
		counted.classes[name] = counters
	}
	add(otherClass)
	for _, class := range l.Classes.Of {
		add(class.Name)
	}
	return counted
}

// count counts a decision about a request with these attributes.
func (c *countedClasses) count(attributes policy.Attributes, o outcome) {
	counters := c.classes[attributes[c.by]]
	if counters == nil {
		counters = c.classes[otherClass]
	}
	counters[o].Inc()
}

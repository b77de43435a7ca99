package metrics

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/limitctl/limitctl/internal/serve/engine"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Sampling says from which store usage is read in the background. Decisions never wait for that.
type Sampling struct {
	Store store.Store
	// Timeout is the store's time budget for one call.
	Timeout time.Duration
	// OnError, if set, gets each error of a round.
	OnError func(error)
}

const (
	// samplePause is the mean time between two rounds.
	samplePause = 10 * time.Second
	// mostUsed is the most limits whose usage is read.
	mostUsed = 100
	// sampleLife is how long a sample is shown if there is no newer one.
	sampleLife = 5 * time.Minute
)

// sample is what was read from the store.
type sample struct {
	at     time.Time
	gauges []prometheus.Metric
}

// Sample reads from the store in rounds until ctx ends.
func (m *Metrics) Sample(ctx context.Context, s Sampling) {
	timer := time.NewTimer(rand.N(samplePause)) // so that servers that start together do not read together
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		m.sampleOnce(ctx, &s)
		timer.Reset(samplePause*4/5 + rand.N(samplePause*2/5))
	}
}

func (m *Metrics) sampleOnce(ctx context.Context, s *Sampling) {
	gauges, err := m.sampleUsed(ctx, s)
	switch {
	case err == nil:
		m.sampled.Store(&sample{time.Now(), gauges})
	case ctx.Err() == nil:
		m.sampleErrors.Inc()
		if s.OnError != nil {
			s.OnError(err)
		}
	}
}

// atScrape collects what is in force and what was sampled last.
type atScrape struct{ *Metrics }

// Describe implements [prometheus.Collector]: the series depend on the configuration and on samples.
func (atScrape) Describe(chan<- *prometheus.Desc) {}

// Collect implements [prometheus.Collector].
func (m atScrape) Collect(metrics chan<- prometheus.Metric) {
	now := time.Now()
	if s := m.sampled.Load(); s != nil && now.Sub(s.at) < sampleLife {
		for _, gauge := range s.gauges {
			metrics <- gauge
		}
	}
	for _, p := range m.settings.Load().Policies {
		for i := range p.Limits {
			name, limit := p.Limits[i].Name, p.Limits[i].Stored()
			metrics <- limitCount.is(float64(limit.Count), p.Name, name)
			metrics <- limitPeriod.is(limit.InWindow(store.InstantOf(now)).Period.Seconds(), p.Name, name)
			metrics <- limitBurst.is(float64(limit.Capacity()), p.Name, name)
		}
	}
}

// measure is a gauge that is read rather than counted.
type measure struct{ *prometheus.Desc }

func describe(name, help string, labels ...string) measure {
	return measure{prometheus.NewDesc("limitctl_"+name, help, labels, nil)}
}

func (m measure) is(value float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(m.Desc, prometheus.GaugeValue, value, labels...)
}

var (
	limitCount  = describe("limit", "Units allowed per period, as configured, where no override applies.", "policy", "limit")
	limitPeriod = describe("limit_period_seconds", "Period of a limit, as configured.", "policy", "limit")
	limitBurst  = describe("limit_burst", "Units that a limit allows at once, as configured.", "policy", "limit")
	usedRatio   = describe("limit_used_ratio",
		"Share in use of a limit whose attributes always have the same values, so that it has one key; 1 is all of it.",
		"policy", "limit")
)

// sampleUsed reads the usage of limits with one key, by peeks: those whose attributes always have the same values, as far as
// the sources of attributes in the configuration show it.
func (m *Metrics) sampleUsed(ctx context.Context, s *Sampling) (gauges []prometheus.Metric, _ error) {
	settings, backend := m.settings.Load(), store.WithBudget(s.Store, s.Timeout)
	for _, p := range settings.Policies {
		attributes := fixedAttributes(settings, p.Name)
		for i := range p.Limits {
			l := &p.Limits[i]
			varies := slices.ContainsFunc(l.By, func(name string) bool { return attributes[name] == "" })
			if varies || len(gauges) == mostUsed {
				continue
			}
			limit, _ := l.For(attributes)
			decisions := make([]store.Decision, 1)
			request := store.Request{Key: p.Key(l, attributes), Limit: limit, Cost: 1}
			if err := backend.Decide(ctx, store.Peek, []store.Request{request}, decisions); err != nil {
				return nil, err
			}
			gauges = append(gauges, usedRatio.is(float64(decisions[0].Used)/float64(limit.Capacity()), p.Name, l.Name))
		}
	}
	return gauges, nil
}

// fixedAttributes returns the attributes of a policy that have the same constant value in all their sources; the others are
// empty.
func fixedAttributes(settings *engine.Settings, name string) policy.Attributes {
	fixed := policy.Attributes{}
	add := func(attribute, value string, isFixed bool) {
		if known, has := fixed[attribute]; !isFixed || has && known != value {
			value = ""
		}
		fixed[attribute] = value
	}
	for attribute, source := range settings.HTTP.Rules[name].Attributes {
		value, isFixed := strings.CutPrefix(source.String(), "value:")
		add(attribute, value, isFixed)
	}
	for _, descriptors := range settings.Envoy {
		for i := range descriptors {
			descriptor := &descriptors[i]
			if descriptor.Policy != name {
				continue
			}
			for _, entry := range descriptor.Entries {
				if entry.Attribute != "" {
					add(entry.Attribute, descriptor.AttributeOf(entry.Value), descriptor.IsOneValue(&entry))
				}
			}
		}
	}
	return fixed
}

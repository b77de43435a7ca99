package metrics

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/limitctl/limitctl/internal/serve/engine"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Sampling says what to read from the store in the background. Decisions never wait for that.
type Sampling struct {
	Store admin.Keyspace
	// Timeout is the store's time budget for one call.
	Timeout time.Duration
	// Keys is the most keys that a round reads; 0 means none.
	Keys int
	// TopDenied is how many of the most denied keys have series, at most MaxTopDenied. Their labels are subjects,
	// so the default 0 is none.
	TopDenied int
	// OnError, if set, gets each error of a round.
	OnError func(error)
}

const (
	// MaxTopDenied bounds [Sampling.TopDenied].
	MaxTopDenied = 20

	// samplePause is the mean time between two rounds. Keys are read in every everyKeys-th, beginning with the first.
	samplePause, everyKeys = 10 * time.Second, 6
	// mostUsed is the most limits whose usage is read.
	mostUsed = 100
	// sampleLife is how long a sample is shown if there is no newer one.
	sampleLife = 5 * time.Minute
	// deniedLast is the time over which denials are counted.
	deniedLast = 10 * time.Minute
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
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		m.sampleOnce(ctx, &s, n)
		timer.Reset(samplePause*4/5 + rand.N(samplePause*2/5))
	}
}

// sampleOnce is round n.
func (m *Metrics) sampleOnce(ctx context.Context, s *Sampling, n int) {
	read := func(what string, read func(context.Context, *Sampling) ([]prometheus.Metric, error)) {
		gauges, err := read(ctx, s)
		switch {
		case err == nil:
			m.samples.Store(what, sample{time.Now(), gauges})
		case ctx.Err() == nil:
			m.sampleErrors.WithLabelValues(what).Inc()
			if s.OnError != nil {
				s.OnError(err)
			}
		}
	}
	read("used", m.sampleUsed)
	if s.Keys > 0 && n%everyKeys == 0 {
		read("keys", m.sampleKeys)
	}
	if s.TopDenied > 0 {
		read("denied", m.sampleDenied)
	}
}

// atScrape collects what is in force and what was sampled last.
type atScrape struct{ *Metrics }

// Describe implements [prometheus.Collector]: the series depend on the configuration and on samples.
func (atScrape) Describe(chan<- *prometheus.Desc) {}

// Collect implements [prometheus.Collector].
func (m atScrape) Collect(metrics chan<- prometheus.Metric) {
	now := time.Now()
	m.samples.Range(func(_, found any) bool {
		if s := found.(sample); now.Sub(s.at) < sampleLife {
			for _, gauge := range s.gauges {
				metrics <- gauge
			}
		}
		return true
	})
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
	keysInUse = describe("keys", "Keys in use by limit, estimated from a sample.", "policy", "limit")
	keysNear  = describe("keys_near_limit", "Keys of which 80 % or more are used, estimated from a sample.", "policy", "limit")
	keysAt    = describe("keys_at_limit", "Keys that have nothing left, estimated from a sample.", "policy", "limit")
	storeKeys = describe("store_keys", "Keys of the store, with those that others wrote, about.")
	topDenied = describe("top_denied", "Denials in the last 10 minutes of the keys that were denied most, if asked for.",
		"subject", "name")
)

// sampleKeys reads some keys of the store.
func (m *Metrics) sampleKeys(ctx context.Context, s *Sampling) ([]prometheus.Metric, error) {
	all, err := store.ParsePattern("*")
	if err != nil {
		return nil, err
	}
	type counts struct{ keys, near, at float64 }
	none := series{policy: nonePolicy.Name, limit: nonePolicy.Name}
	found := map[series]*counts{none: {}}
	for _, p := range m.settings.Load().Policies {
		for i := range p.Limits {
			found[series{policy: p.Name, limit: p.Limits[i].Name}] = &counts{}
		}
	}
	scan, end := context.WithCancel(ctx)
	defer end()
	var read, total int64
	query := admin.Query{Subjects: all, Progress: func(looked, of int64) {
		if read, total = looked, of; looked >= int64(s.Keys) {
			end() // even if no key is ours
		}
	}}
	for entry, err := range s.Store.Scan(scan, query) {
		if scan.Err() != nil {
			break
		}
		if errors.Is(err, store.ErrForeign) {
			continue
		} else if err != nil {
			return nil, err
		}
		c := found[none]
		if parts, ok := policy.ParseKey(entry.Key); ok {
			c = cmp.Or(found[series{policy: parts.Policy, limit: parts.Limit}], c)
		}
		c.keys++
		if share, known := entry.Share(); known && share >= admin.NearShare {
			c.near++
		}
		if entry.AtLimit() {
			c.at++
		}
	}
	gauges := []prometheus.Metric{storeKeys.is(float64(total))}
	whole := max(1, float64(total)/float64(max(read, 1))) // how many keys stand for one that was read
	for of, c := range found {
		gauges = append(gauges, keysInUse.is(c.keys*whole, of.policy, of.limit), keysNear.is(c.near*whole, of.policy, of.limit),
			keysAt.is(c.at*whole, of.policy, of.limit))
	}
	return gauges, ctx.Err()
}

// sampleDenied reads the most denied keys.
func (m *Metrics) sampleDenied(ctx context.Context, s *Sampling) (gauges []prometheus.Metric, _ error) {
	table, has := admin.TablesOf(s.Store)
	if !has {
		return nil, nil
	}
	ctx, cancel := store.BudgetContext(ctx, s.Timeout)
	defer cancel()
	denials, err := table.Denials(ctx, deniedLast)
	if err != nil {
		return nil, err
	}
	for _, row := range denials.Rows[:min(len(denials.Rows), s.TopDenied, MaxTopDenied)] {
		gauges = append(gauges, topDenied.is(float64(row.Count), row.Key.Subject, row.Key.Name))
	}
	return gauges, nil
}

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

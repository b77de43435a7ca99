package metrics

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// keysSample is the result of a round over the store's keys.
type keysSample struct {
	at time.Time
	// looked is the number of keys that the round read, and total the number of all keys, including those of
	// others.
	looked, total int64
	counts        map[policyLimit]*keyCounts
}

type policyLimit struct{ policy, limit string }

// keyCounts counts the keys of one limit in a round.
type keyCounts struct{ keys, near, at int64 }

// errEnough ends a scan that has read enough keys.
var errEnough = errors.New("looked at as many keys as a round may")

// sampleKeys reads some keys of the store.
func (m *Metrics) sampleKeys(ctx context.Context, s *Sampling) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	sample := &keysSample{at: m.clock(), counts: map[policyLimit]*keyCounts{}}
	all, err := store.ParsePattern("*")
	if err != nil {
		return err
	}
	isHuge, enough := false, false
	query := admin.Query{Subjects: all, Progress: func(looked, total int64) {
		sample.looked, sample.total = looked, total
		isHuge = total > hugeStore && !s.Huge
		if enough = isHuge || looked >= int64(s.Keys); enough {
			end(errEnough) // there may be no key of ours at all
		}
	}}
	names := m.names()
	for entry, err := range s.Store.Scan(ctx, query) {
		if enough {
			break
		}
		switch {
		case err == nil:
			sample.add(names, &entry)
		case !errors.Is(err, store.ErrForeign):
			return err
		}
	}
	if isHuge {
		sample.counts = nil
	}
	m.sample.keys.Store(sample)
	return nil
}

// names returns the limits in force.
func (m *Metrics) names() map[policyLimit]bool {
	names := map[policyLimit]bool{}
	for _, p := range m.inForce.Load().settings.Policies {
		for i := range p.Limits {
			names[policyLimit{p.Name, p.Limits[i].Name}] = true
		}
	}
	return names
}

// add counts a key.
func (k *keysSample) add(names map[policyLimit]bool, entry *admin.Entry) {
	of := policyLimit{noPolicy, noPolicy}
	if parts, ok := policy.ParseKey(entry.Key); ok && names[policyLimit{parts.Policy, parts.Limit}] {
		of = policyLimit{parts.Policy, parts.Limit}
	}
	counts := k.counts[of]
	if counts == nil {
		counts = new(keyCounts)
		k.counts[of] = counts
	}
	counts.keys++
	if share, known := entry.Share(); known && share >= admin.NearShare {
		counts.near++
	}
	if entry.AtLimit() {
		counts.at++
	}
}

// estimate extrapolates a number of the sample to all keys.
func (k *keysSample) estimate(sampled int64) float64 {
	if k.looked >= k.total || k.looked == 0 {
		return float64(sampled)
	}
	return float64(sampled) * float64(k.total) / float64(k.looked)
}

// sampleCollector has the metrics of the last rounds.
type sampleCollector struct {
	*Metrics
	used, keys, near, at, looked, total, when, denied *prometheus.Desc
}

func newSampleCollector(m *Metrics) *sampleCollector {
	describe := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("limitctl_"+name, help, labels, nil)
	}
	return &sampleCollector{
		Metrics: m,
		used: describe("limit_used_ratio",
			"Share in use of a limit whose attributes always have the same values, so that it has one key; 1 is all of it.", "policy",
			"limit"),
		keys:   describe("keys", "Keys in use by limit, estimated from a sample.", "policy", "limit"),
		near:   describe("keys_near_limit", "Keys of which 80 % or more are used, estimated from a sample.", "policy", "limit"),
		at:     describe("keys_at_limit", "Keys that have nothing left, estimated from a sample.", "policy", "limit"),
		looked: describe("keys_sampled", "Keys of the store that the last sample looked at."),
		total:  describe("store_keys", "Keys of the store, with those that others wrote, about."),
		when:   describe("keys_sample_timestamp_seconds", "When the last sample was taken, as unix time."),
		denied: describe("top_denied", "Denials in the last 10 minutes of the keys that were denied most, if asked for.", "subject",
			"name"),
	}
}

// Describe implements [prometheus.Collector].
func (c *sampleCollector) Describe(descriptions chan<- *prometheus.Desc) {
	for _, each := range []*prometheus.Desc{c.used, c.keys, c.near, c.at, c.looked, c.total, c.when, c.denied} {
		descriptions <- each
	}
}

// Collect implements [prometheus.Collector].
func (c *sampleCollector) Collect(metrics chan<- prometheus.Metric) {
	tell := func(what *prometheus.Desc, value float64, labels ...string) {
		metrics <- prometheus.MustNewConstMetric(what, prometheus.GaugeValue, value, labels...)
	}
	now, names := c.clock(), c.names()
	if used := c.sample.used.Load(); used != nil && now.Sub(used.at) < sampleLife {
		for _, each := range used.shares {
			if names[policyLimit{each.policy, each.limit}] {
				tell(c.used, each.share, each.policy, each.limit)
			}
		}
	}
	if denied := c.sample.denied.Load(); denied != nil && now.Sub(denied.at) < sampleLife {
		for _, row := range denied.rows {
			tell(c.denied, float64(row.Count), row.Key.Subject, row.Key.Name)
		}
	}
	sample := c.sample.keys.Load()
	if sample == nil || now.Sub(sample.at) >= sampleLife {
		return
	}
	tell(c.looked, float64(sample.looked))
	tell(c.total, float64(sample.total))
	tell(c.when, seconds(sample.at))
	if sample.counts == nil {
		return
	}
	names[policyLimit{noPolicy, noPolicy}] = true
	for of := range names {
		counts := sample.counts[of]
		if counts == nil {
			counts = new(keyCounts)
		}
		tell(c.keys, sample.estimate(counts.keys), of.policy, of.limit)
		tell(c.near, sample.estimate(counts.near), of.policy, of.limit)
		tell(c.at, sample.estimate(counts.at), of.policy, of.limit)
	}
}

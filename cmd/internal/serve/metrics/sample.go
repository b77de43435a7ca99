package metrics

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/limitctl/limitctl/cmd/internal/serve/engine"
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
	// Huge: read keys even if the store has more than a million.
	Huge bool
	// TopDenied is how many of the most denied keys have series, at most MaxTopDenied. Their labels are subjects,
	// so the default 0 is none.
	TopDenied int
	// OnError, if set, gets each error of a round.
	OnError func(error)
}

const (
	// MaxTopDenied bounds [Sampling.TopDenied].
	MaxTopDenied = 20

	// samplePause is the mean time between two rounds. Each round reads what has its turn.
	samplePause = 10 * time.Second
	// Keys are read in every everyKeys-th round and denials in every everyDenials-th, beginning with the first.
	everyKeys, everyDenials = 6, 3
	// hugeStore is the number of keys above which a store is huge.
	hugeStore = 1_000_000
	// mostUsed is the most limits whose usage is read.
	mostUsed = 100
	// sampleLife is how long a sample is shown if there is no newer one.
	sampleLife = 5 * time.Minute
	// deniedLast is the time over which denials are counted.
	deniedLast = 10 * time.Minute
)

// sampleMetrics are the results of the last rounds.
type sampleMetrics struct {
	errors *prometheus.CounterVec
	used   atomic.Pointer[usedSample]
	keys   atomic.Pointer[keysSample]
	denied atomic.Pointer[deniedSample]
}

func (s *sampleMetrics) register(r prometheus.Registerer) {
	s.errors = prometheus.NewCounterVec(counter("sample_errors_total",
		"Times that the store could not be looked at in the background, by what was looked for."), []string{"what"})
	for _, what := range []string{"used", "keys", "denied"} {
		s.errors.WithLabelValues(what)
	}
	r.MustRegister(s.errors)
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
	look := func(what string, look func(context.Context, *Sampling) error) {
		if err := look(ctx, s); err != nil && ctx.Err() == nil {
			m.sample.errors.WithLabelValues(what).Inc()
			if s.OnError != nil {
				s.OnError(err)
			}
		}
	}
	look("used", m.sampleUsed)
	if s.Keys > 0 && n%everyKeys == 0 {
		look("keys", m.sampleKeys)
	}
	known := m.sample.denied.Load()
	if s.TopDenied > 0 && (n%everyDenials == 0 || known == nil || len(known.rows) == 0) {
		look("denied", m.sampleDenied)
	}
}

// usedSample is the used share of limits with one key.
type usedSample struct {
	at     time.Time
	shares []usedShare
}

type usedShare struct {
	policy, limit string
	share         float64
}

// sampleUsed reads the usage of limits with one key, by peeks.
func (m *Metrics) sampleUsed(ctx context.Context, s *Sampling) error {
	sample := &usedSample{at: m.clock()}
	backend := store.WithBudget(s.Store, s.Timeout)
	defer func() { m.sample.used.Store(sample) }()
	for _, one := range oneKeyLimits(m.inForce.Load().settings) {
		decisions := make([]store.Decision, 1)
		if err := backend.Decide(ctx, store.Peek, []store.Request{one.request}, decisions); err != nil {
			return err
		}
		share := float64(decisions[0].Used) / float64(one.request.Limit.Capacity())
		sample.shares = append(sample.shares, usedShare{one.policy, one.limit, share})
	}
	return nil
}

// oneKeyLimit is a limit whose attributes always have the same values.
type oneKeyLimit struct {
	policy, limit string
	request       store.Request
}

// oneKeyLimits returns the limits with one key, as far as the sources of attributes in the configuration show it,
// at most mostUsed of them.
func oneKeyLimits(settings *engine.Settings) []oneKeyLimit {
	var found []oneKeyLimit
	for _, p := range settings.Policies {
		attributes := fixedAttributes(settings, p.Name)
	limits:
		for i := range p.Limits {
			l := &p.Limits[i]
			for _, name := range l.By {
				if attributes[name] == "" {
					continue limits
				}
			}
			if len(found) == mostUsed {
				return found
			}
			limit, _ := l.For(attributes)
			found = append(found, oneKeyLimit{p.Name, l.Name, store.Request{Key: p.Key(l, attributes), Limit: limit, Cost: 1}})
		}
	}
	return found
}

// fixedAttributes returns the attributes of a policy that have the same constant value in all their sources.
func fixedAttributes(settings *engine.Settings, name string) policy.Attributes {
	fixed, varies := policy.Attributes{}, map[string]bool{}
	add := func(attribute, value string, isFixed bool) {
		if known := fixed[attribute]; !isFixed || known != "" && known != value {
			varies[attribute] = true
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
	for attribute := range varies {
		delete(fixed, attribute)
	}
	return fixed
}

// deniedSample are the most denied keys.
type deniedSample struct {
	at   time.Time
	rows []admin.Denied
}

// sampleDenied reads the most denied keys.
func (m *Metrics) sampleDenied(ctx context.Context, s *Sampling) error {
	table, has := admin.DenialTableOf(s.Store)
	if !has {
		return nil
	}
	ctx, cancel := store.BudgetContext(ctx, s.Timeout)
	defer cancel()
	denials, err := table.Denials(ctx, deniedLast)
	if err != nil {
		return err
	}
	rows := denials.Rows[:min(len(denials.Rows), s.TopDenied, MaxTopDenied)]
	m.sample.denied.Store(&deniedSample{at: m.clock(), rows: rows})
	return nil
}

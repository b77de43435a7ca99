package metrics

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/limitctl/limitctl/internal/layers"
)

const (
	// maxShards is the most shards of a store with their own series.
	maxShards = 64
	// otherShards is the label of the rest.
	otherShards = "(others)"
)

var breakerStates = []layers.BreakerState{layers.BreakerClosed, layers.BreakerOpen, layers.BreakerHalfOpen}

// breakerMetrics are about the store's breaker, by part of a store that has parts.
type breakerMetrics struct {
	state   *prometheus.GaugeVec   // by part, state
	changes *prometheus.CounterVec // by part, to

	mu    sync.Mutex
	parts map[string]layers.BreakerState
}

func (b *breakerMetrics) register(r prometheus.Registerer) {
	b.state = prometheus.NewGaugeVec(gauge("breaker_state",
		"1 for the state that the breaker is in, else 0. A Cluster has a breaker for each part, which is the address of a master."),
		[]string{"part", "state"})
	b.changes = prometheus.NewCounterVec(counter("breaker_changes_total", "Changes of the breaker's state."), []string{"part", "to"})
	r.MustRegister(b.state, b.changes)
}

// begin resets the breaker's series, or removes them if there is none.
func (b *breakerMetrics) begin(exists bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.state.Reset()
	b.parts = map[string]layers.BreakerState{}
	if exists {
		b.set("", layers.BreakerClosed)
	}
}

// set sets the state of a part. The caller holds the lock.
func (b *breakerMetrics) set(part string, state layers.BreakerState) {
	b.parts[part] = state
	for _, each := range breakerStates {
		value := 0.0
		if each == state {
			value = 1
		}
		b.state.WithLabelValues(part, each.String()).Set(value)
		b.changes.WithLabelValues(part, each.String()) // the series exists from now on
	}
}

// changed counts a change.
func (b *breakerMetrics) changed(change layers.BreakerChange) {
	b.mu.Lock()
	defer b.mu.Unlock()
	part := change.Shard
	if _, known := b.parts[part]; !known && len(b.parts) >= maxShards && !b.makeRoom() {
		b.changes.WithLabelValues(otherShards, change.To.String()).Inc()
		return
	}
	b.set(part, change.To)
	b.changes.WithLabelValues(part, change.To.String()).Inc()
}

// makeRoom forgets a part whose breaker is closed, if there is one. The caller holds the lock.
func (b *breakerMetrics) makeRoom() bool {
	for part, state := range b.parts {
		if part != "" && state == layers.BreakerClosed {
			delete(b.parts, part)
			b.state.DeletePartialMatch(prometheus.Labels{"part": part})
			b.changes.DeletePartialMatch(prometheus.Labels{"part": part})
			return true
		}
	}
	return false
}

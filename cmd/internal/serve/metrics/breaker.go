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

// breakerMetrics are about the store's breaker, by shard of a store that has shards.
type breakerMetrics struct {
	state   *prometheus.GaugeVec   // by shard, state
	changes *prometheus.CounterVec // by shard, to

	mu     sync.Mutex
	shards map[string]layers.BreakerState
}

func (b *breakerMetrics) register(r prometheus.Registerer) {
	b.state = prometheus.NewGaugeVec(gauge("breaker_state",
		"1 for the state that the breaker is in, else 0. A Cluster has a breaker for each part, named by the address of its master."),
		[]string{"part", "state"})
	b.changes = prometheus.NewCounterVec(counter("breaker_changes_total", "Changes of the breaker's state."), []string{"part", "to"})
	r.MustRegister(b.state, b.changes)
}

// begin resets the breaker's series, or removes them if there is none.
func (b *breakerMetrics) begin(exists bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.state.Reset()
	b.shards = map[string]layers.BreakerState{}
	if exists {
		b.set("", layers.BreakerClosed)
	}
}

// set sets the state of a shard. The caller holds the lock.
func (b *breakerMetrics) set(shard string, state layers.BreakerState) {
	b.shards[shard] = state
	for _, each := range breakerStates {
		value := 0.0
		if each == state {
			value = 1
		}
		b.state.WithLabelValues(shard, each.String()).Set(value)
		b.changes.WithLabelValues(shard, each.String()) // the series exists from now on
	}
}

// changed counts a change.
func (b *breakerMetrics) changed(change layers.BreakerChange) {
	b.mu.Lock()
	defer b.mu.Unlock()
	shard := change.Shard
	if _, known := b.shards[shard]; !known && len(b.shards) >= maxShards && !b.makeRoom() {
		b.changes.WithLabelValues(otherShards, change.To.String()).Inc()
		return
	}
	b.set(shard, change.To)
	b.changes.WithLabelValues(shard, change.To.String()).Inc()
}

// makeRoom forgets a shard whose breaker is closed, if there is one. The caller holds the lock.
func (b *breakerMetrics) makeRoom() bool {
	for shard, state := range b.shards {
		if shard != "" && state == layers.BreakerClosed {
			delete(b.shards, shard)
			b.state.DeletePartialMatch(prometheus.Labels{"part": shard})
			b.changes.DeletePartialMatch(prometheus.Labels{"part": shard})
			return true
		}
	}
	return false
}

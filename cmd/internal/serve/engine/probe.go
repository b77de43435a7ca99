package engine

import (
	"context"
	"strconv"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// probes is the number of keys that Probe peeks at if the store has parts: enough to reach each part within a few
// calls.
const probes = 64

// Probe lets an open breaker check the store, if it is time. Calls do so, too, but without calls a breaker would
// stay open when the store is back, and refuse the next call. parts says that the breaker is open for some parts of
// the store only. Nothing is charged.
func (e *Engine) Probe(ctx context.Context, parts bool) {
	e.replacing.Lock()
	breaker := e.breaker
	e.replacing.Unlock()
	if breaker == nil {
		return
	}
	n := 1
	if parts {
		n = probes
	}
	limit := store.Limit{Count: 1, Period: time.Second}
	for range n {
		key := store.Key{Subject: "limitctl-probe-" + strconv.FormatUint(e.probed.Add(1), 10)}
		reqs := []store.Request{{Key: key, Limit: limit, Cost: 1}}
		if breaker.store.Decide(ctx, store.Peek, reqs, make([]store.Decision, 1)); ctx.Err() != nil {
			return
		}
	}
}

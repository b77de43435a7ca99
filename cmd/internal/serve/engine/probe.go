package engine

import (
	"context"
	"strconv"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// probes is how many keys Probe asks about in a store in parts: enough for some key of each part to
// be among them within a few times.
const probes = 64

// Probe has a breaker that is open ask the store again, if it is time for that. Calls do so, too,
// but without calls a breaker would stay open when the store is back, and refuse the next one.
// parts says that it is open for parts of the store, and not for all of it. Nothing is charged.
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

package storetest

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	_ "time/tzdata" // not every host that runs the tests has zones

	"github.com/limitctl/limitctl/internal/storecall"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// token returns the token of the next call, often none.
func (c *comparison) token(op store.Op) string {
	if op == store.Adjust || op != store.Settle && c.r.IntN(2) == 0 {
		return ""
	}
	return c.reqs[0].Key.Subject + ":" + string(rune('0'+c.r.IntN(2)))
}

// charging makes req part of a call that charges: with the token, if there is one, and then mostly with the
// remembered cost, or with a cost that does not fit.
func (c *comparison) charging(op store.Op, req *store.Request, token string, upTo int64) {
	most := req.Limit.Algorithm.MaxCount()
	if req.Limit.Algorithm == 0 {
		most = store.MaxCount
	}
	switch op {
	case store.TakeUpTo:
		req.Cost = upTo
	case store.Charge:
		switch c.r.IntN(4) {
		case 0:
			req.Cost = 1 + c.r.Int64N(most)
		case 1:
			req.Cost = 1 + c.r.Int64N(min(most, 3*req.Limit.Capacity()))
		}
	case store.Settle:
		req.Cost = c.r.Int64N(1 + min(most, 2*req.Limit.Capacity()))
	default: // its current cost
	}
	req.Token, req.TokenTTL = token, 0
	if token == "" {
		return
	}
	if record := c.tokens[token]; op == store.TakeUpTo && record.Op == op && !record.IsZero() {
		req.Cost = record.Charges[0].Cost
	}
	req.TokenTTL = []time.Duration{time.Millisecond, time.Second, time.Hour, store.MaxTokenTTL}[int(upTo)%4]
	if record := c.tokens[token]; !record.IsZero() && c.r.IntN(4) > 0 {
		for i := range c.reqs {
			if &c.reqs[i] != req || i >= len(record.Charges) {
				continue
			}
			charge := &record.Charges[i]
			if op == store.TakeUpTo {
				continue // it has one cost
			}
			if op != store.Settle && (charge.Cost <= req.Limit.Capacity() || op != store.Take && op != store.Peek) {
				req.Cost = charge.Cost
			} else if op == store.Settle && record.Settled {
				req.Cost = charge.Real
			}
		}
	}
}

const (
	goroutines = 64
	attempts   = 20 // of each goroutine
	hotCount   = 1000
)

// concurrentTakesEqualASerialOrder takes from one key of 1000/1h with 64 goroutines. With a clock that stands still
// exactly 1000 are allowed; with the store's own clock also those that leak meanwhile.
func concurrentTakesEqualASerialOrder(t *testing.T, h Harness, kind store.Kind) {
	limit := LimitOf(kind, hotCount, time.Hour)

	still := h.New(t, func() time.Time { return epoch })
	if allowed := storm(t, still, limit); allowed != hotCount {
		t.Errorf("at one instant %d of %d takes were allowed, want %d", allowed, goroutines*attempts, hotCount)
	}

	running := h.New(t, nil)
	begin := time.Now()
	allowed := storm(t, running, limit)
	end := time.Now()
	most := int64(hotCount)
	switch {
	case kind.Algorithm().HasBurst():
		// A microsecond of rounding at each end, and the step of the clock.
		most += int64(end.Sub(begin)/(limit.Period/hotCount)) + 1
	case end.Truncate(limit.Period).After(begin.Truncate(limit.Period)):
		most *= 2 // a window ended meanwhile
	}
	if allowed < hotCount || allowed > most {
		t.Errorf("within %s %d takes were allowed, want %d to %d", end.Sub(begin), allowed, hotCount, most)
	}
}

func storm(t *testing.T, backend store.Store, limit store.Limit) int64 {
	t.Helper()
	l := storecall.New(backend)
	var allowed atomic.Int64
	var wait sync.WaitGroup
	for range goroutines {
		wait.Go(func() {
			for range attempts {
				d, err := l.Take(context.Background(), store.Key{Subject: "hot"}, limit, 1)
				if err != nil {
					t.Error(err)
					return
				}
				if d.Allowed {
					allowed.Add(1)
				}
			}
		})
	}
	wait.Wait()
	d, err := l.Peek(context.Background(), store.Key{Subject: "hot"}, limit, 1)
	if err != nil {
		t.Fatal(err)
	}
	if d.Used > hotCount {
		t.Errorf("%d in use of %d", d.Used, hotCount)
	}
	return allowed.Load()
}

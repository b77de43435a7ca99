package storetest

import (
	"time"

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

package storetest

import (
	"time"

	"github.com/limitctl/limitctl/pkg/limiter"
)

// token returns the token of the next call, often none.
func (c *comparison) token(op limiter.Op) string {
	if op == limiter.Adjust || op != limiter.Settle && c.r.IntN(2) == 0 {
		return ""
	}
	tokens := make([]string, 0, len(c.tokens))
	for i := range len(c.tokens) {
		tokens = append(tokens, c.reqs[0].Key.Subject+":"+string(rune('0'+i)))
	}
	return tokens[c.r.IntN(len(tokens))]
}

// special makes req one of a call that is not usual: with the token, if there is one, and then
// mostly of the cost that is remembered, or with a cost that does not fit.
func (c *comparison) special(op limiter.Op, req *limiter.Request, token string, upTo int64) {
	most := req.Limit.Algorithm.MaxCount()
	if req.Limit.Algorithm == 0 {
		most = limiter.MaxCount
	}
	switch op {
	case limiter.TakeUpTo:
		req.Cost = upTo
	case limiter.Charge:
		switch c.r.IntN(4) {
		case 0:
			req.Cost = 1 + c.r.Int64N(most)
		case 1:
			req.Cost = 1 + c.r.Int64N(min(most, 3*req.Limit.Capacity()))
		}
	case limiter.Settle:
		req.Cost = c.r.Int64N(1 + min(most, 2*req.Limit.Capacity()))
	}
	req.Token, req.TokenTTL = token, 0
	if token == "" {
		return
	}
	if record := c.tokens[token]; op == limiter.TakeUpTo && record.Op == op && !record.IsZero() {
		req.Cost = record.Parts[0].Cost
	}
	req.TokenTTL = []time.Duration{time.Millisecond, time.Second, time.Hour, limiter.MaxTokenTTL}[int(upTo)%4]
	if record := c.tokens[token]; !record.IsZero() && c.r.IntN(4) > 0 {
		for i := range c.reqs {
			if &c.reqs[i] != req || i >= len(record.Parts) {
				continue
			}
			part := &record.Parts[i]
			if op == limiter.TakeUpTo {
				continue // which has one cost
			}
			if op != limiter.Settle && (part.Cost <= req.Limit.Capacity() || op != limiter.Take && op != limiter.Peek) {
				req.Cost = part.Cost
			} else if op == limiter.Settle && record.Settled {
				req.Cost = part.Real
			}
		}
	}
}

package storetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// token returns the token of the next call, often none.
func (c *comparison) token(op store.Op) string {
	if op == store.Adjust || op != store.Settle && c.r.IntN(2) == 0 {
		return ""
	}
	tokens := make([]string, 0, len(c.tokens))
	for i := range len(c.tokens) {
		tokens = append(tokens, c.reqs[0].Key.Subject+":"+string(rune('0'+i)))
	}
	return tokens[c.r.IntN(len(tokens))]
}

// charging makes req part of a call for DecideCharging: with the token, if there is one, and then mostly with the remembered
// cost, or with a cost that does not fit.
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

// withToken returns a request with a token for the fixture's subject.
func (f *fixture) withToken(limit store.Limit, cost int64, ttl time.Duration) store.Request {
	req := f.request(limit, cost)
	req.Token, req.TokenTTL = f.subject+":token", ttl
	return req
}

// decideIfBounded decides req, and ends the case if that would exceed the most usage.
func (f *fixture) decideIfBounded(op store.Op, req store.Request) store.Decision {
	f.Helper()
	decisions := make([]store.Decision, 1)
	err := f.store.Decide(context.Background(), op, []store.Request{req}, decisions)
	if op != store.Take && op != store.TakeUpTo && errors.Is(err, store.ErrInvalid) {
		f.Skip(err)
	}
	if err != nil {
		f.Fatalf("%s %+v: %v", op, req, err)
	}
	return decisions[0]
}

// tokenChargesOnce checks that an allowed call with a token gets the same answer again and charges nothing, and
// that a denied one is decided again.
func tokenChargesOnce(t *testing.T, h Harness, kind store.Kind) {
	property(t, h, func(f *fixture) {
		limit := drawLimit(f.T, kind)
		f.use(limit)
		op := rapid.SampledFrom([]store.Op{store.Take, store.Charge, store.TakeUpTo}).Draw(f.T, "op")
		req := f.withToken(limit, drawCost(f.T, limit), store.MaxTokenTTL)
		before := f.peek(limit, req.Cost)
		first := f.decideIfBounded(op, req)
		if first.Repeated || first.Allowed != (first.Granted > 0) || first.Granted > req.Cost {
			f.Fatalf("the first %s with a token is %+v", op, first)
		}
		if !first.Allowed {
			f.advance(first.RetryAfter)
			if again := f.decide(op, req)[0]; !again.Allowed || again.Repeated {
				f.Fatalf("after the denial %+v, the same with its token is %+v", first, again)
			}
			return
		}
		if first.Used != before.Used+first.Granted {
			f.Fatalf("%d used before %+v", before.Used, first)
		}
		pause := time.Duration(rapid.Int64Range(0, min(drawPause(f.T, limit), store.MaxTokenTTL-time.Hour).Microseconds()).Draw(f.T,
			"pause"))
		f.advance(pause * time.Microsecond)
		now, dump := f.peek(limit, 1), h.dump(t, f.store)
		for _, again := range []store.Op{op, store.Peek} {
			if again == store.Peek && op != store.Take {
				continue
			}
			d := f.decide(again, req)[0]
			if !d.Allowed || !d.Repeated || d.Granted != first.Granted || d.Used != now.Used || d.Remaining != now.Remaining ||
				d.ResetAfter != now.ResetAfter || d.RetryAfter != 0 {
				f.Fatalf("first %+v, again %+v, the key being %+v", first, d, now)
			}
		}
		// A different call is refused, and changes nothing either.
		other := req
		other.Cost = 1 + req.Cost%limit.Capacity()
		if other.Cost != req.Cost {
			f.fails(store.ErrInvalid, op, other)
		}
		other = req
		other.Key.Name = "another"
		f.fails(store.ErrInvalid, op, other)
		other = req
		other.Limit.Count = 1 + limit.Count%10
		other.Limit.Burst, other.Cost = 0, 1
		if other.Limit.Count != limit.Count {
			f.fails(store.ErrInvalid, op, other)
		}
		if op != store.Take {
			f.fails(store.ErrInvalid, store.Take, req)
		}
		if h.dump(t, f.store) != dump {
			f.Fatalf("what was not charged again has written")
		}
	})
}

// tokenIsForgotten checks that a token ends after its time, and after its units were given back, which happens
// once.
func tokenIsForgotten(t *testing.T, h Harness, kind store.Kind) {
	property(t, h, func(f *fixture) {
		limit := drawLimit(f.T, kind)
		ttl := time.Duration(rapid.Int64Range(1000, store.MaxTokenTTL.Microseconds()).Draw(f.T, "TTL")) * time.Microsecond
		req := f.withToken(limit, drawCost(f.T, limit), ttl)
		first := f.decide(store.Take, req)[0]
		f.advance(ttl - time.Microsecond)
		if d := f.decide(store.Take, req)[0]; !d.Repeated {
			f.Fatalf("a microsecond before its end: %+v", d)
		}
		f.advance(time.Microsecond)
		f.fails(store.ErrUnknownToken, store.Settle, req)
		if d := f.decideIfBounded(store.Charge, req); d.Repeated {
			f.Fatalf("at its end: %+v", d)
		}
		used := f.peek(limit, 1).Used
		f.decide(store.Refund, req)
		after := f.peek(limit, 1).Used
		f.decide(store.Refund, req)
		if d := f.peek(limit, 1); after != used-first.Granted && after != 0 || d.Used != after {
			f.Fatalf("%d used, %d after giving %d back, %d after doing so again", used, after, first.Granted, d.Used)
		}
		f.fails(store.ErrUnknownToken, store.Settle, req)
	})
}

// overcharge charges a key above its capacity, and returns the decision.
func (f *fixture) overcharge(limit store.Limit) store.Decision {
	f.Helper()
	most := min(limit.Algorithm.MaxCount(), 3*limit.Capacity()) - f.peek(limit, 1).Used
	if most < 1 {
		f.Skip("nothing more can be in use")
	}
	req := f.request(limit, rapid.Int64Range(1, most).Draw(f.T, "charge"))
	before := f.peek(limit, 1)
	d := f.decideIfBounded(store.Charge, req)
	want := max(0, limit.Capacity()-before.Used-req.Cost)
	if !d.Allowed || d.Granted != req.Cost || d.Used != before.Used+req.Cost || d.Remaining != want || d.RetryAfter != 0 {
		f.Fatalf("a charge of %d to %+v is %+v", req.Cost, before, d)
	}
	return d
}

// chargeExceedsTheCapacity checks that the laws of a decision also hold above the capacity.
func chargeExceedsTheCapacity(t *testing.T, h Harness, kind store.Kind) {
	property(t, h, func(f *fixture) {
		limit := drawLimit(f.T, kind)
		f.use(limit)
		charged := f.overcharge(limit)
		if reset := charged.ResetAfter; reset > 50*366*24*time.Hour {
			return // virtual time must not run into the year 2112
		}
		cost := drawCost(f.T, limit)
		start := *f.now
		if d := f.peek(limit, cost); !d.Allowed {
			dump := h.dump(t, f.store)
			if f.take(limit, cost).Allowed || h.dump(t, f.store) != dump {
				f.Fatalf("above the capacity a take is not denied, or it writes")
			}
			f.advance(d.RetryAfter - time.Microsecond)
			if early := f.peek(limit, cost); early.Allowed || early.RetryAfter != time.Microsecond {
				f.Fatalf("%+v, and a microsecond before the retry %+v", d, early)
			}
			f.advance(time.Microsecond)
			if f.peek(limit, cost); !f.peek(limit, cost).Allowed {
				f.Fatalf("%+v, and at the retry %+v", d, f.peek(limit, cost))
			}
		}
		*f.now = start
		f.advance(charged.ResetAfter - time.Microsecond)
		if d := f.peek(limit, 1); d.Used == 0 {
			f.Fatalf("%+v, and a microsecond before its reset %+v", charged, d)
		}
		f.advance(time.Microsecond)
		if d := f.peek(limit, 1); d.Used != 0 || d.ResetAfter != 0 {
			f.Fatalf("%+v, and at its reset %+v", charged, d)
		}
	})
}

// chargeIsBounded checks that a charge above the bound is refused and writes nothing.
func chargeIsBounded(t *testing.T, h Harness, kind store.Kind) {
	property(t, h, func(f *fixture) {
		limit := LimitOf(kind, 500, time.Minute)
		most := limit.Algorithm.MaxCount()
		f.decide(store.Charge, f.request(limit, most-1))
		dump := h.dump(t, f.store)
		f.fails(store.ErrInvalid, store.Charge, f.request(limit, 2))
		f.fails(store.ErrInvalid, store.Charge, f.request(limit, store.MaxCount+1))
		// If one of several requests cannot be charged, none is.
		other := f.request(limit, 2)
		other.Key.Name = "other"
		f.fails(store.ErrInvalid, store.Charge, other, f.request(limit, 2))
		if h.dump(t, f.store) != dump {
			f.Fatalf("a charge that was refused has written")
		}
		if d := f.decide(store.Charge, f.request(limit, 1))[0]; d.Used != most {
			f.Fatalf("the most there can be: %+v", d)
		}
		if limit.Algorithm.HasBurst() {
			slow := f.request(store.Limit{Algorithm: limit.Algorithm, Count: 1, Period: store.MaxPeriod}, 101)
			slow.Key.Name = "slow"
			f.fails(store.ErrInvalid, store.Charge, slow)
			slow.Cost = 100
			f.decide(store.Charge, slow)
		}
	})
}

// recordsAboveTheCapacityComeBack checks that such a key is found, exported and imported.
func recordsAboveTheCapacityComeBack(t *testing.T, h Harness, kind store.Kind) {
	property(t, h, func(f *fixture) {
		keys, has := admin.KeyspaceOf(f.store)
		if !has {
			return
		}
		limit := drawLimit(f.T, kind)
		f.overcharge(limit)
		ctx, key := context.Background(), f.request(limit, 1).Key
		before := f.peek(limit, 1)
		look := func() (found []admin.Entry) {
			for entry, err := range keys.Scan(ctx, admin.Query{Keys: []store.Key{key}, Records: true}) {
				if err != nil {
					f.Fatal(err)
				}
				found = append(found, entry)
			}
			return found
		}
		found := look()
		if len(found) != 1 || found[0].Used != before.Used || found[0].ResetAfter != before.ResetAfter {
			f.Fatalf("of %+v the scan finds %+v", before, found)
		}
		if deleted, _, err := keys.Delete(ctx, found[0].Record); deleted != 1 || err != nil || f.peek(limit, 1).Used != 0 {
			f.Fatalf("%d deleted, %v", deleted, err)
		}
		outcomes, err := keys.Import(ctx, false, found[0].Record)
		if err != nil || outcomes[0] != admin.Imported || f.peek(limit, 1) != before {
			f.Fatalf("imported %v, %v: %+v, and before %+v", outcomes, err, f.peek(limit, 1), before)
		}
		left := rapid.Int64Range(0, limit.Capacity()).Draw(f.T, "left")
		f.decide(store.Adjust, f.request(limit, left))
		if d := f.peek(limit, 1); d.Used != left {
			f.Fatalf("adjusted to %d: %+v", left, d)
		}
	})
}

// settleBringsToTheRealCost checks that a settlement equals a charge or a refund of the difference.
func settleBringsToTheRealCost(t *testing.T, h Harness, kind store.Kind) {
	property(t, h, func(f *fixture) {
		limit := drawLimit(f.T, kind)
		req := f.withToken(limit, drawCost(f.T, limit), store.MaxTokenTTL)
		plain := f.request(limit, req.Cost)
		plain.Key.Name = "plain"
		f.decide(store.Take, req)
		f.decide(store.Take, plain)
		f.advance(min(drawPause(f.T, limit), time.Hour))
		settled := req
		settled.Cost = rapid.Int64Range(0, min(limit.Algorithm.MaxCount(), 2*limit.Capacity())).Draw(f.T, "real cost")
		d := f.decideIfBounded(store.Settle, settled)
		op := store.Charge
		if plain.Cost = settled.Cost - req.Cost; plain.Cost < 0 {
			op, plain.Cost = store.Refund, -plain.Cost
		}
		if plain.Cost != 0 {
			f.decide(op, plain)
		}
		plain.Cost = 1
		want := f.decide(store.Peek, plain)[0]
		if !d.Allowed || d.Repeated || d.Granted != settled.Cost || f.peek(limit, 1) != want ||
			d.Used != want.Used || d.ResetAfter != want.ResetAfter {
			f.Fatalf("settled %d at %d: %+v, then %+v; by itself it is %+v", req.Cost, settled.Cost, d, f.peek(limit, 1), want)
		}
		dump := h.dump(t, f.store)
		if again := f.decide(store.Settle, settled)[0]; !again.Repeated || again.Granted != settled.Cost || again.Used != want.Used {
			f.Fatalf("settled again: %+v", again)
		}
		if again := f.decide(store.Take, req)[0]; !again.Repeated || again.Granted != req.Cost {
			f.Fatalf("taken again: %+v", again)
		}
		settled.Cost++
		f.fails(store.ErrInvalid, store.Settle, settled)
		settled.Cost, settled.Token = 1, settled.Token+"?"
		f.fails(store.ErrUnknownToken, store.Settle, settled)
		settled.Token = ""
		f.fails(store.ErrInvalid, store.Settle, settled)
		if h.dump(t, f.store) != dump {
			f.Fatalf("settling again has written")
		}
	})
}

// takeUpToGrantsWhatFits checks that exactly the remaining units are granted, the least of several limits.
func takeUpToGrantsWhatFits(t *testing.T, h Harness, kind store.Kind) {
	property(t, h, func(f *fixture) {
		limit := drawLimit(f.T, kind)
		f.use(limit)
		if rapid.IntRange(0, 4).Draw(f.T, "overcharge") == 0 {
			f.overcharge(limit)
		}
		before := f.peek(limit, 1)
		most := rapid.Int64Range(1, store.MaxCount).Draw(f.T, "up to")
		second := store.Request{Key: store.Key{Subject: f.subject, Name: "second"},
			Limit: store.Limit{Algorithm: store.FixedWindow, Count: 1 + most/2, Period: store.MaxPeriod}, Cost: most}
		want := min(most, before.Remaining)
		reqs := []store.Request{f.request(limit, most)}
		if rapid.Bool().Draw(f.T, "two limits") {
			reqs, want = append(reqs, second), min(want, second.Limit.Count)
		}
		decisions := f.decide(store.TakeUpTo, reqs...)
		d := decisions[0]
		if d.Granted != want || d.Allowed != (want > 0) || d.Used != before.Used+want || d.Remaining != before.Remaining-want {
			f.Fatalf("up to %d of %+v: %+v", most, before, decisions)
		}
		if len(decisions) > 1 && decisions[1].Granted != want {
			f.Fatalf("the second limit granted %+v", decisions[1])
		}
		if !d.Allowed {
			f.advance(d.RetryAfter - time.Microsecond)
			if early := f.decide(store.TakeUpTo, reqs...)[0]; early.Allowed {
				f.Fatalf("%+v, and a microsecond before the retry %+v", d, early)
			}
			f.advance(time.Microsecond)
			if at := f.decide(store.TakeUpTo, reqs...)[0]; at.Granted < 1 {
				f.Fatalf("%+v, and at the retry %+v", d, at)
			}
		}
	})
}

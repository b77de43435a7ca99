package storetest

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

func refundGivesBack(t *testing.T, h Harness, kind store.Kind) {
	property(t, h, func(f *fixture) {
		limit := drawLimit(f.T, kind)
		f.use(limit)
		before := f.peek(limit, 1)
		cost := drawCost(f.T, limit)
		if f.take(limit, cost).Allowed {
			back := f.decide(store.Refund, f.request(limit, cost))[0]
			if after := f.peek(limit, 1); after.Used != before.Used || back.Refunded != cost {
				f.Fatalf("%d used before a take of %d and its refund of %d, %d after", before.Used, cost, back.Refunded, after.Used)
			}
		}
		some := drawCost(f.T, limit)
		before = f.peek(limit, 1)
		if back := f.decide(store.Refund, f.request(limit, some))[0]; back.Refunded != min(some, before.Used) {
			f.Fatalf("a refund of %d of the %d units in use gave %d back", some, before.Used, back.Refunded)
		}
		f.decide(store.Refund, f.request(limit, store.MaxCount))
		refunded := f.decide(store.Refund, f.request(limit, store.MaxCount))[0] // the two windows of a counter can hold twice that
		if d := f.peek(limit, 1); refunded.Used != 0 || d.Used != 0 || d.ResetAfter != 0 {
			f.Fatalf("after a refund of everything: %+v, then %+v", refunded, d)
		}
		if nothing := f.decide(store.Refund, f.request(limit, 1))[0]; nothing.Refunded != 0 || !nothing.Allowed {
			f.Fatalf("a refund of an unused key: %+v", nothing)
		}
	})
}

// lateRefundDoesNothing checks that a refund is made at its last instant, and does nothing after that by the clock,
// or after a later charge. No other operation can have such an instant.
func lateRefundDoesNothing(t *testing.T, h Harness, kind store.Kind) {
	property(t, h, func(f *fixture) {
		limit := drawLimit(f.T, kind)
		f.use(limit)
		cost := drawCost(f.T, limit)
		req := f.request(limit, cost)
		if rapid.Bool().Draw(f.T, "token") {
			req = f.withToken(limit, cost, store.MaxTokenTTL)
		}
		before := f.peek(limit, 1)
		taken := f.decide(store.Take, req)[0]
		if !taken.Allowed {
			return
		}
		for _, op := range []store.Op{store.Take, store.Peek, store.Adjust, store.Charge, store.Settle, store.TakeUpTo} {
			other := req
			if other.NotAfter = taken.At; op == store.Adjust {
				other.Token = ""
			}
			f.fails(store.ErrInvalid, op, other)
		}
		way := time.Duration(rapid.Int64Range(0, time.Hour.Microseconds()).Draw(f.T, "way")) * time.Microsecond
		f.advance(way)
		now, dump := f.peek(limit, 1), h.dump(t, f.store)
		late := req
		late.NotAfter = now.At - 1
		refused := f.decide(store.Refund, late)[0]
		if refused.Allowed || refused.Granted != 0 || refused.Refunded != 0 ||
			refused.RetryAfter != 0 || refused.Used != now.Used || refused.At != now.At {
			f.Fatalf("a late refund: %+v, the key being %+v", refused, now)
		}
		if after := h.dump(t, f.store); after != dump {
			f.Fatalf("a late refund changed %q to %q", dump, after)
		}
		inTime, plain := late, req
		inTime.NotAfter = now.At
		if rapid.Bool().Draw(f.T, "clock set back") && way > 0 && now.Used > 0 {
			// A later charge is past the instant, although the clock is not.
			f.advance(-way - time.Microsecond)
			inTime.NotAfter = taken.At - 1
			if d := f.decide(store.Refund, inTime)[0]; d.Allowed || d.Used != f.peek(limit, 1).Used {
				f.Fatalf("a refund of before the last charge: %+v", d)
			}
			return
		}
		made := f.decide(store.Refund, inTime)[0]
		if !made.Allowed || made.At != now.At || made.Used > now.Used || made.Refunded != min(cost, now.Used) {
			f.Fatalf("a refund in time: %+v, the key being %+v", made, now)
		}
		if way == 0 && made.Used != before.Used {
			f.Fatalf("%d used before a take of %d, %d after its refund in time", before.Used, cost, made.Used)
		}
		if again := f.decide(store.Refund, plain)[0]; req.Token != "" && (again.Used != made.Used || again.Refunded != 0) {
			f.Fatalf("a token was given back twice: %+v, then %+v", made, again)
		}
	})
}

// adjustLeavesExactly checks that an operator's correction brings the usage from any value to exactly the wanted
// one.
func adjustLeavesExactly(t *testing.T, h Harness, kind store.Kind) {
	property(t, h, func(f *fixture) {
		limit := drawLimit(f.T, kind)
		f.use(limit)
		used := rapid.OneOf(rapid.Int64Range(0, min(3, limit.Capacity())), rapid.Int64Range(0, limit.Capacity())).Draw(f.T, "to leave used")
		adjusted := f.decide(store.Adjust, f.request(limit, used))[0]
		after := f.peek(limit, 1)
		if !adjusted.Allowed || adjusted.Used != used || adjusted.Delay != 0 || after.Used != used {
			f.Fatalf("adjusted to %d used: %+v, then %+v", used, adjusted, after)
		}
		before := h.dump(t, f.store)
		f.decide(store.Adjust, f.request(limit, used))
		if h.dump(t, f.store) != before {
			f.Fatalf("adjusting to %d a second time wrote", used)
		}
		f.fails(store.ErrInvalid, store.Adjust, f.request(limit, limit.Capacity()+1))
		f.fails(store.ErrInvalid, store.Adjust, f.request(limit, -1))
	})
}

// shadowNeverDenies checks that a shadow limit answers like the same limit without shadow, is charged like it, and
// does not affect the other limits.
func shadowNeverDenies(t *testing.T, h Harness, kind store.Kind) {
	property(t, h, func(f *fixture) {
		limit := drawLimit(f.T, kind)
		f.use(limit)
		shadow := f.request(limit, drawCost(f.T, limit))
		earnest := f.peek(limit, shadow.Cost)
		shadow.Shadow = true
		enforced := store.Request{Key: store.Key{Subject: f.subject, Name: "enforced"},
			Limit: store.Limit{Count: 2, Period: time.Minute}, Cost: 1}
		decisions := f.decide(store.Take, shadow, enforced)
		if !decisions[1].Allowed || decisions[1].Used != 1 || !store.AllAllowed(decisions) {
			f.Fatalf("next to a shadow that is %+v, the limit in earnest is %+v", decisions[0], decisions[1])
		}
		if d := decisions[0]; !d.Shadow || d.Allowed != earnest.Allowed || d.RetryAfter != earnest.RetryAfter {
			f.Fatalf("as a shadow %+v, in earnest %+v", d, earnest)
		}
		want := earnest.Used
		if earnest.Allowed {
			want += shadow.Cost
		}
		if got := f.peek(limit, 1).Used; got != want {
			f.Fatalf("%d used before a shadow's take of %d (allowed: %v), %d after", earnest.Used, shadow.Cost, earnest.Allowed, got)
		}
		// A denial by an enforced limit charges no shadow.
		enforced.Cost = 2
		before := h.dump(t, f.store)
		if store.AllAllowed(f.decide(store.Take, shadow, enforced)) || h.dump(t, f.store) != before {
			f.Fatalf("a denied call was charged to a shadow")
		}
		// A cost that never fits is a normal denial of a shadow.
		shadow.Cost = limit.Capacity() + 1
		if shadow.Cost > store.MaxCount {
			return
		}
		if d := f.decide(store.Take, shadow)[0]; d.Allowed || !d.Shadow || d.RetryAfter != 0 || h.dump(t, f.store) != before {
			f.Fatalf("a shadow of more than ever fits: %+v", d)
		}
	})
}

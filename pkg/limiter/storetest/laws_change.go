package storetest

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/limitctl/limitctl/pkg/limiter"
)

func refundGivesBack(t *testing.T, h Harness, kind limiter.Kind) {
	property(t, h, func(f *fixture) {
		limit := drawLimit(f.T, kind)
		f.use(limit)
		before := f.peek(limit, 1)
		cost := drawCost(f.T, limit)
		if f.take(limit, cost).Allowed {
			f.decide(limiter.Refund, f.request(limit, cost))
			if after := f.peek(limit, 1); after.Used != before.Used {
				f.Fatalf("%d used before a take of %d and its refund, %d after", before.Used, cost, after.Used)
			}
		}
		f.decide(limiter.Refund, f.request(limit, limiter.MaxCount))
		refunded := f.decide(limiter.Refund, f.request(limit, limiter.MaxCount))[0] // a counter's two windows can hold twice that
		if d := f.peek(limit, 1); refunded.Used != 0 || d.Used != 0 || d.ResetAfter != 0 {
			f.Fatalf("after a refund of everything: %+v, then %+v", refunded, d)
		}
	})
}

// adjustLeavesExactly wants an operator's correction to bring usage, from
// any value, to exactly what was asked for.
func adjustLeavesExactly(t *testing.T, h Harness, kind limiter.Kind) {
	property(t, h, func(f *fixture) {
		limit := drawLimit(f.T, kind)
		f.use(limit)
		used := rapid.OneOf(rapid.Int64Range(0, min(3, limit.Capacity())), rapid.Int64Range(0, limit.Capacity())).Draw(f.T, "to leave used")
		adjusted := f.decide(limiter.Adjust, f.request(limit, used))[0]
		after := f.peek(limit, 1)
		if !adjusted.Allowed || adjusted.Used != used || adjusted.Delay != 0 || after.Used != used {
			f.Fatalf("adjusted to %d used: %+v, then %+v", used, adjusted, after)
		}
		before := h.Dump(t, f.store)
		f.decide(limiter.Adjust, f.request(limit, used))
		if h.Dump(t, f.store) != before {
			f.Fatalf("adjusting to %d a second time wrote", used)
		}
		f.fails(limiter.ErrInvalid, limiter.Adjust, f.request(limit, limit.Capacity()+1))
		f.fails(limiter.ErrInvalid, limiter.Adjust, f.request(limit, -1))
	})
}

// shadowNeverDenies wants a shadow to answer as the same limit would in earnest,
// to be charged as that would be, and to leave the others alone.
func shadowNeverDenies(t *testing.T, h Harness, kind limiter.Kind) {
	property(t, h, func(f *fixture) {
		limit := drawLimit(f.T, kind)
		f.use(limit)
		shadow := f.request(limit, drawCost(f.T, limit))
		earnest := f.peek(limit, shadow.Cost)
		shadow.Shadow = true
		enforced := limiter.Request{Key: limiter.Key{Subject: f.subject, Name: "enforced"},
			Limit: limiter.Limit{Count: 2, Period: time.Minute}, Cost: 1}
		decisions := f.decide(limiter.Take, shadow, enforced)
		if !decisions[1].Allowed || decisions[1].Used != 1 || !limiter.AllAllowed(decisions) {
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
		// What is denied in earnest charges no shadow.
		enforced.Cost = 2
		before := h.Dump(t, f.store)
		if limiter.AllAllowed(f.decide(limiter.Take, shadow, enforced)) || h.Dump(t, f.store) != before {
			f.Fatalf("a denied call was charged to a shadow")
		}
		// A cost that never fits is the answer of a trial like any other.
		shadow.Cost = limit.Capacity() + 1
		if shadow.Cost > limiter.MaxCount {
			return
		}
		if d := f.decide(limiter.Take, shadow)[0]; d.Allowed || !d.Shadow || d.RetryAfter != 0 || h.Dump(t, f.store) != before {
			f.Fatalf("a shadow of more than ever fits: %+v", d)
		}
	})
}

package storetest

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// drawLeave draws what a request of a cost can leave, often the most.
func drawLeave(t *rapid.T, limit store.Limit, cost int64) int64 {
	most := limit.Capacity() - cost
	return rapid.OneOf(rapid.Int64Range(0, min(3, most)), rapid.Int64Range(0, most), rapid.Just(most)).Draw(t, "leave")
}

// leaving returns a request of the fixture's subject that leaves units.
func (f *fixture) leaving(limit store.Limit, cost, leave int64) store.Request {
	req := f.request(limit, cost)
	req.Leave = leave
	return req
}

// leaveKeepsUnitsFree checks that a request which leaves units is allowed exactly if so many stay free, and that
// laws 1, 2, 4, 5 and 10 hold for those who leave as much.
func leaveKeepsUnitsFree(t *testing.T, h Harness, kind store.Kind) {
	property(t, h, func(f *fixture) {
		limit := drawLimit(f.T, kind)
		f.use(limit)
		if rapid.IntRange(0, 4).Draw(f.T, "overcharge") == 0 {
			f.overcharge(limit)
		}
		cost := drawCost(f.T, limit)
		leave := drawLeave(f.T, limit, cost)
		free, req, reach := f.peek(limit, 1), f.leaving(limit, cost, leave), limit.Capacity()-leave
		dump := h.dump(t, f.store)
		d := f.decide(store.Peek, req)[0]
		if want := free.Used+cost <= reach; d.Allowed != want || d.Used != free.Used || d.ResetAfter != free.ResetAfter {
			f.Fatalf("%d of %s in use: with %d to be left, a peek of %d is %+v", free.Used, limit, leave, cost, d)
		}
		if want := max(0, reach-free.Used); d.Remaining != want {
			f.Fatalf("%d of %s in use: with %d to be left, %d remain, want %d", free.Used, limit, leave, d.Remaining, want)
		}
		if d.Remaining < reach && f.decide(store.Peek, f.leaving(limit, d.Remaining+1, leave))[0].Allowed {
			f.Fatalf("%d remain with %d to be left, and one more is allowed", d.Remaining, leave)
		}
		// What never fits is an error, and what just fits is none.
		f.fails(store.ErrNeverFits, store.Take, f.leaving(limit, cost, reach-cost+leave+1))
		f.fails(store.ErrNeverFits, store.Peek, f.leaving(limit, reach+1, leave))
		f.fails(store.ErrNeverFits, store.TakeUpTo, f.leaving(limit, cost, limit.Capacity()))
		f.fails(store.ErrInvalid, store.Take, f.leaving(limit, cost, -1))
		f.decide(store.Peek, f.leaving(limit, reach, leave))
		shadow := f.leaving(limit, cost, store.MaxCount)
		shadow.Shadow = true
		if d := f.decide(store.Take, shadow)[0]; d.Allowed && cost+store.MaxCount > limit.Capacity() || d.RetryAfter != 0 {
			f.Fatalf("a shadow that leaves more than there is: %+v", d)
		}
		shadow.Leave++
		f.fails(store.ErrInvalid, store.Take, shadow)
		if d.Allowed {
			if h.dump(t, f.store) != dump {
				f.Fatalf("peeks and refused takes have written")
			}
			granted := f.decide(store.TakeUpTo, f.leaving(limit, store.MaxCount, leave))[0]
			if granted.Granted != d.Remaining || granted.Remaining != 0 || granted.Used != reach {
				f.Fatalf("%d remained with %d to be left, and a take of all is %+v", d.Remaining, leave, granted)
			}
			if full := f.peek(limit, 1); full.Remaining != leave || full.Allowed != (leave > 0) {
				f.Fatalf("%d were left, and to one who leaves nothing %+v", leave, full)
			}
			return
		}
		if denied := f.decide(store.Take, req)[0]; denied != d || h.dump(t, f.store) != dump {
			f.Fatalf("denied as %+v after a peek said %+v; or the denial has written", denied, d)
		}
		f.advance(d.RetryAfter - time.Microsecond)
		if early := f.decide(store.Peek, req)[0]; early.Allowed || early.RetryAfter != time.Microsecond {
			f.Fatalf("%+v, and a microsecond before the retry %+v", d, early)
		}
		f.advance(time.Microsecond)
		if again := f.decide(store.Take, req)[0]; !again.Allowed || again.Used+again.Remaining != reach {
			f.Fatalf("%+v, and at the retry %+v", d, again)
		}
	})
}

// eachLimitHasItsOwnLeave checks that limits of one call leave each their own, and are charged all or none.
func eachLimitHasItsOwnLeave(t *testing.T, h Harness, kind store.Kind) {
	property(t, h, func(f *fixture) {
		var reqs []store.Request
		for i := range rapid.IntRange(2, 4).Draw(f.T, "limits") {
			limit := drawLimit(f.T, kind)
			if i > 1 {
				limit = drawLimit(f.T, rapid.SampledFrom(store.Kinds()).Draw(f.T, "kind"))
			}
			req := f.request(limit, 1)
			req.Key.Name = []string{"a", "b", "c", "d"}[i]
			reqs = append(reqs, req)
		}
		for range rapid.IntRange(1, 6).Draw(f.T, "rounds") {
			used, want := make([]int64, len(reqs)), true
			for i := range reqs {
				req := &reqs[i]
				req.Cost = drawCost(f.T, req.Limit)
				req.Leave = drawLeave(f.T, req.Limit, req.Cost)
				used[i] = f.decide(store.Peek, *req)[0].Used
				want = want && used[i]+req.Cost+req.Leave <= req.Limit.Capacity()
			}
			dump := h.dump(t, f.store)
			decisions := f.decide(store.Take, reqs...)
			if store.AllAllowed(decisions) != want || !want && h.dump(t, f.store) != dump {
				f.Fatalf("%v with %v in use are decided as %+v, or a denial has written", reqs, used, decisions)
			}
			for i, d := range decisions {
				req := &reqs[i]
				if fits := used[i]+req.Cost+req.Leave <= req.Limit.Capacity(); d.Allowed != fits {
					f.Fatalf("%+v with %d in use is decided as %+v", *req, used[i], d)
				}
				if remaining := max(0, req.Limit.Capacity()-req.Leave-d.Used); d.Remaining != remaining {
					f.Fatalf("%+v leaves %d remaining: %+v", *req, remaining, d)
				}
			}
			f.advance(drawPause(f.T, reqs[0].Limit))
		}
	})
}

// leaveIsForTakes checks that charges, refunds and adjustments change a key as if nothing were left.
func leaveIsForTakes(t *testing.T, h Harness, kind store.Kind) {
	property(t, h, func(f *fixture) {
		limit := drawLimit(f.T, kind)
		for range rapid.IntRange(1, 6).Draw(f.T, "rounds") {
			op := rapid.SampledFrom([]store.Op{store.Charge, store.Refund, store.Adjust}).Draw(f.T, "op")
			plain := f.request(limit, drawCost(f.T, limit))
			plain.Key.Name = "plain"
			leaving := f.leaving(limit, plain.Cost, rapid.Int64Range(1, limit.Capacity()+3).Draw(f.T, "leave"))
			leaving.Leave = min(leaving.Leave, store.MaxCount)
			if most := limit.Algorithm.MaxCount(); op == store.Charge && f.decide(store.Peek, plain)[0].Used > most-plain.Cost {
				return
			}
			want, got := f.decideIfBounded(op, plain), f.decideIfBounded(op, leaving)
			want.Remaining = max(0, limit.Capacity()-leaving.Leave-want.Used)
			if got != want {
				f.Fatalf("a %s with %d to be left is %+v, and without %+v", op, leaving.Leave, got, want)
			}
			f.advance(drawPause(f.T, limit))
		}
	})
}

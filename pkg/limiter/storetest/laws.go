package storetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/limitctl/limitctl/internal/storecall"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

func deniedConsumesNothing(t *testing.T, h Harness, kind store.Kind) {
	property(t, h, func(f *fixture) {
		limit := drawLimit(f.T, kind)
		f.use(limit)
		before := h.dump(t, f.store)
		if f.take(limit, drawCost(f.T, limit)).Allowed {
			f.take(limit, limit.Capacity()) // now something is in use, so this is denied
			before = h.dump(t, f.store)
			if f.take(limit, limit.Capacity()).Allowed {
				return // the first ones expired within a microsecond
			}
		}
		if after := h.dump(t, f.store); after != before {
			f.Fatalf("a denied take changed the store\nfrom %s\nto   %s", before, after)
		}
	})
}

func peekNeverWrites(t *testing.T, h Harness, kind store.Kind) {
	property(t, h, func(f *fixture) {
		limit := drawLimit(f.T, kind)
		f.use(limit)
		cost := drawCost(f.T, limit)
		before := h.dump(t, f.store)
		peeked := f.peek(limit, cost)
		if after := h.dump(t, f.store); after != before {
			f.Fatalf("a peek changed the store\nfrom %s\nto   %s", before, after)
		}
		if again := f.peek(limit, cost); again != peeked {
			f.Fatalf("a peek answered %+v, the next one %+v", peeked, again)
		}
		taken := f.take(limit, cost)
		if taken.Allowed != peeked.Allowed || taken.RetryAfter != peeked.RetryAfter || taken.Delay != peeked.Delay {
			f.Fatalf("a peek answered %+v, the take %+v", peeked, taken)
		}
		if !taken.Allowed && taken != peeked {
			f.Fatalf("a peek answered %+v, the denied take %+v", peeked, taken)
		}
	})
}

func allOrNothing(t *testing.T, h Harness, kind store.Kind) {
	property(t, h, func(f *fixture) {
		reqs := []store.Request{f.request(drawLimit(f.T, kind), 1)}
		for i := range rapid.IntRange(1, 4).Draw(f.T, "more limits") {
			other := f.request(drawLimit(f.T, rapid.SampledFrom(store.Kinds()).Draw(f.T, "kind")), 1)
			other.Key.Name = []string{"a", "b", "c", "d"}[i]
			reqs = append(reqs, other)
		}
		for range rapid.IntRange(1, 6).Draw(f.T, "rounds") {
			for i := range reqs {
				reqs[i].Cost = drawCost(f.T, reqs[i].Limit)
			}
			peeked := f.decide(store.Peek, reqs...)
			before := h.dump(t, f.store)
			taken := f.decide(store.Take, reqs...)
			for i := range reqs {
				if taken[i].Allowed != peeked[i].Allowed {
					f.Fatalf("of %v together number %d was allowed: %v; a peek said %v", reqs, i, taken[i].Allowed, peeked[i].Allowed)
				}
			}
			if store.AllAllowed(taken) {
				for i := range reqs {
					if charged := taken[i].Used - peeked[i].Used; charged != reqs[i].Cost {
						f.Fatalf("all of %v were allowed, and number %d was charged %d", reqs, i, charged)
					}
				}
			} else if after := h.dump(t, f.store); after != before {
				f.Fatalf("%v were denied as %+v and changed the store\nfrom %s\nto   %s", reqs, taken, before, after)
			}
			f.advance(drawPause(f.T, reqs[0].Limit))
		}
		// The same key twice could be charged twice although only one request fits.
		f.fails(store.ErrInvalid, store.Take, reqs[0], reqs[0])
	})
}

func retryAfterIsExact(t *testing.T, h Harness, kind store.Kind) {
	property(t, h, func(f *fixture) {
		limit := drawLimit(f.T, kind)
		f.use(limit)
		asked := limit
		if rapid.Bool().Draw(f.T, "changed") {
			asked = changed(f.T, limit)
		}
		cost := drawCost(f.T, asked)
		d := f.take(asked, cost)
		if d.Allowed {
			if d.RetryAfter != 0 {
				f.Fatalf("allowed, and yet retry after %s", d.RetryAfter)
			}
			return
		}
		if d.RetryAfter <= 0 || d.RetryAfter%time.Microsecond != 0 {
			f.Fatalf("denied with retry after %s", d.RetryAfter)
		}
		f.advance(d.RetryAfter - time.Microsecond)
		if early := f.peek(asked, cost); early.Allowed {
			f.Fatalf("%s units denied under %s with retry after %s, but allowed a microsecond earlier", asked, limit, d.RetryAfter)
		} else if early.RetryAfter != time.Microsecond {
			f.Fatalf("a microsecond before the time, retry after is %s", early.RetryAfter)
		}
		f.advance(time.Microsecond)
		if !f.take(asked, cost).Allowed {
			f.Fatalf("denied again after the retry-after of %s", d.RetryAfter)
		}
	})
}

func remainingIsExact(t *testing.T, h Harness, kind store.Kind) {
	property(t, h, func(f *fixture) {
		limit := drawLimit(f.T, kind)
		f.use(limit)
		op := rapid.SampledFrom([]store.Op{store.Take, store.Peek, store.Refund}).Draw(f.T, "op")
		remaining := f.decide(op, f.request(limit, drawCost(f.T, limit)))[0].Remaining
		if remaining < 0 || remaining > limit.Capacity() {
			f.Fatalf("%d remaining of %s", remaining, limit)
		}
		if remaining < limit.Capacity() && f.peek(limit, remaining+1).Allowed {
			f.Fatalf("%d remaining after a %s, and one more is allowed", remaining, op)
		}
		if remaining > 0 {
			if d := f.take(limit, remaining); !d.Allowed || d.Remaining != 0 {
				f.Fatalf("%d remaining after a %s, and taking them gives %+v", remaining, op, d)
			}
		}
	})
}

// decisionsAreDated checks that every decision has the instant of the store's clock, even if that was set back.
func decisionsAreDated(t *testing.T, h Harness, kind store.Kind) {
	property(t, h, func(f *fixture) {
		limit := drawLimit(f.T, kind)
		f.use(limit)
		if rapid.IntRange(0, 3).Draw(f.T, "back") == 0 {
			f.advance(-drawPause(f.T, limit))
		}
		beside := f.request(drawLimit(f.T, rapid.SampledFrom(store.Kinds()).Draw(f.T, "kind")), 1)
		beside.Key.Name, beside.Shadow = "beside", rapid.Bool().Draw(f.T, "shadow")
		for _, cost := range []int64{drawCost(f.T, limit), limit.Capacity()} { // the second is denied, mostly
			for _, op := range []store.Op{store.Peek, store.Take, store.Refund, store.Adjust} {
				alone := f.decide(op, f.request(limit, cost))
				together := f.decide(op, f.request(limit, cost), beside)
				for _, d := range append(alone, together...) {
					if want := store.InstantOf(*f.now); d.At != want {
						f.Fatalf("a %s at %s says that it was at %s: %+v", op, want.Time(), d.At.Time(), d)
					}
				}
				f.advance(time.Microsecond)
			}
		}
	})
}

func absentMeansUnused(t *testing.T, h Harness, kind store.Kind) {
	property(t, h, func(f *fixture) {
		limit := drawLimit(f.T, kind)
		f.use(limit)
		d := f.take(limit, drawCost(f.T, limit))
		if d.Used > 0 {
			f.advance(d.ResetAfter - time.Microsecond)
			if f.peek(limit, 1).Used == 0 {
				f.Fatalf("unused a microsecond before the reset-after of %s", d.ResetAfter)
			}
			f.advance(time.Microsecond)
		}
		never := f.request(limit, drawCost(f.T, limit))
		never.Key.Subject += ":never"
		lapsed := f.request(limit, never.Cost)
		for _, op := range []store.Op{store.Peek, store.Take} {
			want, got := f.decide(op, never)[0], f.decide(op, lapsed)[0]
			if got != want {
				f.Fatalf("%s on the lapsed key is %+v, on one never seen %+v", op, got, want)
			}
		}
		keys, has := admin.KeyspaceOf(f.store)
		if !has {
			return
		}
		if _, _, err := keys.Delete(context.Background(), admin.Records(lapsed.Key, never.Key)...); err != nil {
			f.Fatal(err)
		}
		if d := f.peek(limit, 1); d.Used != 0 || d.ResetAfter != 0 || !d.Allowed {
			f.Fatalf("a deleted key answers %+v", d)
		}
	})
	// With the store's own clock, a key stays until its reset after and not much longer.
	backend := h.New(t, nil)
	limit := LimitOf(kind, 10, time.Minute)
	key := store.Key{Subject: "ttl", Name: "limit"}
	if _, err := storecall.New(backend).Take(context.Background(), key, limit, 3); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	for entry, err := range scan(context.Background(), backend, admin.Query{Subjects: exactly(t, "ttl")}) {
		if err != nil {
			t.Fatal(err)
		}
		apart := time.Since(begin) + time.Millisecond // of the instants of both
		if late := entry.TTL - entry.Decision.ResetAfter; late < -apart || late > apart+time.Millisecond {
			t.Errorf("reset after %s, but kept for %s", entry.Decision.ResetAfter, entry.TTL)
		}
	}
}

func timeNeverRunsBackwards(t *testing.T, h Harness, kind store.Kind) {
	property(t, h, func(f *fixture) {
		limit := drawLimit(f.T, kind)
		f.advance(4 * store.MaxPeriod) // so that the clock can be set back
		f.use(limit)
		d := f.take(limit, drawCost(f.T, limit))
		if !d.Allowed {
			return
		}
		back := drawPause(f.T, limit)
		f.advance(-back)
		if earlier := f.peek(limit, 1); earlier.Used != d.Used {
			f.Fatalf("%d used, and %d after the clock went back by %s", d.Used, earlier.Used, back)
		}
		cost := drawCost(f.T, limit)
		again := f.take(limit, cost)
		if again.Allowed != (cost <= d.Remaining) {
			f.Fatalf("%d remaining; %d taken after the clock went back by %s: %+v", d.Remaining, cost, back, again)
		}
		if !again.Allowed { // law 4 holds by the current clock
			f.advance(again.RetryAfter)
			if !f.take(limit, cost).Allowed {
				f.Fatalf("denied again after the retry-after of %s", again.RetryAfter)
			}
		}
	})
}

func changingALimitKeepsItsUsage(t *testing.T, h Harness, kind store.Kind) {
	property(t, h, func(f *fixture) {
		limit := drawLimit(f.T, kind)
		f.use(limit)
		used := f.peek(limit, 1).Used
		other := changed(f.T, limit)
		d := f.peek(other, 1)
		if d.Used != used {
			f.Fatalf("%d used under %s, and %d under %s", used, limit, d.Used, other)
		}
		if want := max(0, other.Capacity()-used); d.Remaining != want {
			f.Fatalf("%d used; %d remain under %s, want %d", used, d.Remaining, other, want)
		}
		if d.Remaining > 0 {
			if taken := f.take(other, d.Remaining); !taken.Allowed || taken.Used != other.Capacity() {
				f.Fatalf("taking all %d that remain under %s gives %+v", d.Remaining, other, taken)
			}
		}
	})
}

func costThatNeverFitsIsAnError(t *testing.T, h Harness, kind store.Kind) {
	property(t, h, func(f *fixture) {
		limit := drawLimit(f.T, kind)
		before := h.dump(t, f.store)
		for _, op := range []store.Op{store.Take, store.Peek} {
			f.fails(store.ErrNeverFits, op, f.request(limit, limit.Capacity()+1))
			f.fails(store.ErrInvalid, op, f.request(limit, limit.Capacity()+1))
		}
		for _, op := range []store.Op{store.Take, store.Peek, store.Refund} {
			f.fails(store.ErrInvalid, op, f.request(limit, 0))
			f.fails(store.ErrInvalid, op, f.request(limit, -1))
			for _, broken := range []store.Limit{
				{Algorithm: limit.Algorithm, Count: 0, Period: limit.Period},
				{Algorithm: limit.Algorithm, Count: -1, Period: limit.Period},
				{Algorithm: limit.Algorithm, Count: store.MaxCount + 1, Period: limit.Period},
				{Algorithm: limit.Algorithm, Count: 1, Period: 0},
				{Algorithm: limit.Algorithm, Count: 1, Period: -time.Second},
				{Algorithm: limit.Algorithm, Count: 1, Period: store.MaxPeriod + time.Microsecond},
				{Algorithm: limit.Algorithm, Count: 1, Period: time.Millisecond + time.Nanosecond},
				{Algorithm: limit.Algorithm, Count: 1, Period: limit.Period, Burst: -1},
				{Algorithm: limit.Algorithm, Count: 1, Period: limit.Period, Slices: -1},
				{Algorithm: limit.Algorithm, Count: 1, Period: time.Hour, Slices: store.MaxSlices + 1},
				{Algorithm: limit.Algorithm, Count: 1, Period: time.Second, Slices: 7},
				{Algorithm: store.TokenBucket, Count: 1, Period: time.Second, Slices: 2},
			} {
				f.fails(store.ErrInvalid, op, f.request(broken, 1))
			}
			f.fails(store.ErrInvalid, op)
			f.fails(store.ErrInvalid, op, store.Request{Key: store.Key{Subject: "a{b", Name: "limit"}, Limit: limit, Cost: 1})
		}
		if after := h.dump(t, f.store); after != before {
			f.Fatalf("invalid requests changed the store\nfrom %s\nto   %s", before, after)
		}
	})
}

func foreignDataIsNotTouched(t *testing.T, h Harness, kind store.Kind) {
	if h.Plant == nil {
		return // no other process can write to it
	}
	ctx := context.Background()
	backend := h.New(t, nil)
	limit := LimitOf(kind, 10, time.Minute)
	// A record of limitctl, to be damaged.
	own := store.State{}
	normalized, _ := limit.Normalize()
	own.Charge(normalized, 3, store.InstantOf(epoch))
	record := string(own.AppendRecord(nil))
	for name, value := range map[string]string{
		"text":        "hello",
		"empty":       "",
		"short":       record[:len(record)-1],
		"long":        record + "x",
		"version":     record[:2] + "\x09" + record[3:],
		"algorithm":   record[:3] + "\x09" + record[4:],
		"zero-count":  record[:4] + "\x00\x00\x00\x00" + record[8:],
		"huge-count":  record[:4] + "\xff\xff\xff\xff" + record[8:],
		"zero-burst":  record[:8] + "\x00\x00\x00\x00" + record[12:], // or slices
		"zero-period": record[:12] + "\x00\x00\x00\x00\x00\x00\x00" + record[19:],
		"huge-period": record[:12] + "\xff\xff\xff\xff\xff\xff\xff" + record[19:],
		"far-future":  record[:19] + "\x40\x00\x00\x00\x00\x00\x00" + record[26:],
		"huge-usage":  record[:26] + "\xff\xff\xff\xff" + record[30:],
	} {
		key := store.Key{Subject: "foreign", Name: name}
		intact := h.Plant(t, backend, key, value)
		for _, op := range []store.Op{store.Take, store.Peek, store.Refund} {
			good := store.Request{Key: store.Key{Subject: "foreign", Name: "good"}, Limit: limit, Cost: 1}
			foreign := store.Request{Key: key, Limit: limit, Cost: 1}
			err := backend.Decide(ctx, op, []store.Request{good, foreign}, make([]store.Decision, 2))
			var named *store.ForeignError
			if !errors.As(err, &named) || !errors.Is(err, store.ErrForeign) {
				t.Errorf("%s of a key holding %s: got error %v, want a ForeignError", op, name, err)
			} else if want := h.storeKey(backend, key); named.StoreKey != want {
				t.Errorf("%s of a key holding %s: the error names %q, want %q", op, name, named.StoreKey, want)
			}
		}
		if keys, has := admin.KeyspaceOf(backend); has && (name == "text" || name == "empty") {
			// A value that begins like a record can be deleted, even if it is damaged.
			if _, _, err := keys.Delete(ctx, admin.Record{Key: key}); !errors.Is(err, store.ErrForeign) {
				t.Errorf("deleting a key holding %s: got error %v, want a ForeignError", name, err)
			}
		}
		if !intact() {
			t.Errorf("the value %q (%s) was touched", value, name)
		}
	}
	good, err := storecall.New(backend).Peek(ctx, store.Key{Subject: "foreign", Name: "good"}, limit, 1)
	if err != nil || good.Used != 0 {
		t.Errorf("a key decided together with a foreign one: %+v, %v; want it unused", good, err)
	}
}

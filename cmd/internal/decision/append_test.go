package decision

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// FuzzAppendJSON compares the result with encoding/json.
func FuzzAppendJSON(f *testing.F) {
	for i := range 64 {
		f.Add(uint64(i), "user:42", "reason")
	}
	f.Add(uint64(1), "ünïcode \u202e <&> \"\\\n\xff", "\x7f\u2028")
	f.Fuzz(func(t *testing.T, seed uint64, text, other string) {
		a := randomAnswer(rand.New(rand.NewPCG(seed, 1)), text, other)
		want, err := output.JSON(a.Document())
		if err != nil {
			t.Fatal(err)
		}
		if got := a.AppendJSON([]byte("before")); !bytes.Equal(got, append([]byte("before"), want...)) {
			t.Errorf("AppendJSON\n got %s\nwant %s", got, want)
		}
		want, err = output.JSON(a.RefundDocument())
		if err != nil {
			t.Fatal(err)
		}
		if got := a.AppendRefundJSON(nil); !bytes.Equal(got, want) {
			t.Errorf("AppendRefundJSON\n got %s\nwant %s", got, want)
		}
	})
}

// randomAnswer returns a random answer, in which every field occurs from time to time.
func randomAnswer(r *rand.Rand, text, other string) *Answer {
	often := func() bool { return r.IntN(3) > 0 }
	seldom := func() bool { return r.IntN(3) == 0 }
	a := &Answer{Key: text, Charges: often()}
	share := store.Share(r.IntN(100_000) + 1)
	n := r.IntN(4) + 1
	if seldom() {
		a.Policy = &policy.Policy{Name: other}
	}
	for range n {
		limit := store.Limit{Algorithm: store.Algorithms()[r.IntN(len(store.Algorithms()))], Count: r.Int64N(1e9) + 1,
			Period: time.Duration(r.Int64N(1e15) + 1), Burst: r.Int64N(100)}
		if seldom() {
			limit.Slices = r.Int64N(3600)
		}
		a.Requests = append(a.Requests, store.Request{Key: store.Key{Subject: text, Name: other}, Limit: limit, Cost: r.Int64N(9) - 1})
		a.Overrides = append(a.Overrides, r.IntN(3)-1)
		if a.Policy != nil {
			l := policy.Limit{Name: text + other}
			if seldom() {
				l.Cost = policy.Cost{Field: "tokens"}
			}
			a.Policy.Limits = append(a.Policy.Limits, l)
		}
		d := store.Decision{Allowed: often(), Shadow: seldom(), Used: r.Int64N(1e9), Remaining: r.Int64N(1e9), Granted: r.Int64N(9),
			Refunded: r.Int64N(9), Repeated: seldom(), RetryAfter: time.Duration(r.Int64N(1e12)), ResetAfter: time.Duration(r.Int64N(1e18)),
			Delay: time.Duration(r.Int64N(1e10)), Unguarded: seldom(), DecidedBy: store.Decider(r.IntN(6))}
		if seldom() {
			d.Override = &store.Override{ID: other, Effect: store.OverrideTimes, Thousandths: 2000, ExpiresAt: time.UnixMicro(r.Int64N(4e15)),
				Reason: text, By: other}
		}
		if d.DecidedBy == store.DecidedByLocal {
			d.LocalShare = share
		}
		a.Decisions = append(a.Decisions, d)
	}
	return a
}

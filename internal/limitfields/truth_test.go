package limitfields

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/limitctl/limitctl/internal/probe/headers"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// The fields are true for any limits: exactly what remains can be taken, more remains after t, the same request is
// allowed after Retry-After and not a second before, and at the reset more remains and a denied request is allowed.
func TestWhatIsToldIsTrue(t *testing.T) {
	algorithms := []string{"token-bucket", "leaky-bucket", "fixed-window", "sliding-log", "sliding-counter"}
	periods := []string{"1ms", "300ms", "999ms", "1s", "1500ms", "7s", "1m", "1h", "30d"}
	drawLimit := rapid.Custom(func(t *rapid.T) store.Limit {
		algorithm := rapid.SampledFrom(algorithms).Draw(t, "algorithm")
		text := fmt.Sprintf("%s:%d/%s", algorithm, rapid.IntRange(1, 12).Draw(t, "count"),
			rapid.SampledFrom(periods).Draw(t, "period"))
		switch {
		case algorithm == "sliding-counter" && rapid.Bool().Draw(t, "in slices"):
			text += ",slices=10"
		case limitOf(text).Algorithm.HasBurst() && rapid.Bool().Draw(t, "with a burst"):
			text += fmt.Sprintf(",burst=%d", rapid.IntRange(1, 24).Draw(t, "burst"))
		}
		return limitOf(text)
	})
	rapid.Check(t, func(t *rapid.T) {
		now := time.Unix(1_700_000_000, 0)
		backend := memorystore.New(memorystore.WithClock(func() time.Time { return now }))
		decide := func(op store.Op, reqs []store.Request) []store.Decision {
			decisions := make([]store.Decision, len(reqs))
			if err := backend.Decide(context.Background(), op, reqs, decisions); err != nil {
				t.Fatal(err)
			}
			return decisions
		}
		var reqs []store.Request
		var names []string
		most := int64(24)
		for i, limit := range rapid.SliceOfN(drawLimit, 1, 3).Draw(t, "limits") {
			names = append(names, "limit-"+strconv.Itoa(i))
			reqs = append(reqs, store.Request{Key: store.Key{Subject: "user:42", Name: "p/" + names[i]}, Limit: limit})
			most = min(most, limit.Capacity())
		}
		// left returns what remains of a limit after some time, without changing it.
		left := func(i int, after time.Duration) int64 {
			before := now
			now = now.Add(after)
			defer func() { now = before }()
			req := reqs[i]
			req.Cost = 1
			return decide(store.Peek, []store.Request{req})[0].Remaining
		}
		for range 30 {
			passed := rapid.OneOf(rapid.Int64Range(0, 2e6), rapid.Int64Range(0, 3e9)).Draw(t, "µs that pass")
			now = now.Add(time.Duration(passed) * time.Microsecond)
			cost := rapid.Int64Range(1, most).Draw(t, "cost")
			for i := range reqs {
				reqs[i].Cost = cost
			}
			op := rapid.SampledFrom([]store.Op{store.Take, store.Take, store.Peek}).Draw(t, "operation")
			decisions := decide(op, reqs)
			header := http.Header{}
			Set(header, all, named(names...), reqs, decisions, now)
			seen, states := read(t, header, now)
			least := int64(1 << 62)
			for i, state := range states {
				least = min(least, state.Remaining)
				if is := left(i, 0); is != state.Remaining {
					t.Fatalf("%s: %d are left, and it was told %d", reqs[i].Limit, is, state.Remaining)
				}
				if is := left(i, state.Reset); is <= state.Remaining && is < reqs[i].Limit.Capacity() {
					t.Fatalf("%s: %d are left, and after %s there are %d", reqs[i].Limit, state.Remaining, state.Reset, is)
				}
				if !decisions[i].Allowed && seen.RetryAfter < state.Reset {
					t.Fatalf("Retry-After is %s, and t is %s", seen.RetryAfter, state.Reset)
				}
			}
			x := seen.Limits[len(seen.Limits)-1] // X-RateLimit
			if len(states) != len(reqs) || x.Dialect != headers.DialectX || x.Remaining != least {
				t.Fatalf("of %d limits the least left is %d: %v", len(reqs), least, header)
			}
			if allowed := store.AllAllowed(decisions); allowed != (seen.RetryAfter < 0) {
				t.Fatalf("allowed %v: %v", allowed, header)
			}
			tightest := false
			for i := range reqs {
				tightest = tightest || left(i, 0) == least &&
					(least == reqs[i].Limit.Capacity() || left(i, x.Reset) > least) &&
					x.Count == reqs[i].Limit.Capacity()
			}
			if !tightest {
				t.Fatalf("no limit with %d left has more at the reset: %v", least, header)
			}
			if seen.RetryAfter > 0 {
				before := now
				if late := x.Reset - seen.RetryAfter; late >= time.Second {
					t.Fatalf("the reset is %s after Retry-After: %v", late, header)
				}
				if now = before.Add(x.Reset); !store.AllAllowed(decide(store.Peek, reqs)) {
					t.Fatalf("at the reset the same is denied: %v", header)
				}
				now = before.Add(seen.RetryAfter - time.Second)
				if store.AllAllowed(decide(store.Peek, reqs)) {
					t.Fatalf("Retry-After is more than a second late: %v", header)
				}
				now = before.Add(seen.RetryAfter)
				if !store.AllAllowed(decide(store.Peek, reqs)) {
					t.Fatalf("after Retry-After the same is denied: %v", header)
				}
				now = before
			}
		}
	})
}

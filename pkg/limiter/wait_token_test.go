package limiter_test

import (
	"context"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
)

// A wait that was cut off is asked for again with its token: what was charged is not
// charged again, waits behind nobody, and its turn is the one that it had.
func TestWaitWithAToken(t *testing.T) {
	now := time.Unix(1e9, 0)
	store := memorystore.New(memorystore.WithClock(func() time.Time { return now }))
	waiter := &limiter.Waiter{Store: store, Now: func() time.Time { return now }, Sleep: func(_ context.Context, d time.Duration) error {
		now = now.Add(d)
		return nil
	}}
	limit := limiter.Limit{Algorithm: limiter.LeakyBucket, Count: 1, Period: time.Second, Burst: 100}
	req := limiter.Request{Key: limiter.Key{Subject: "a"}, Limit: limit, Cost: 1, Token: "t"}
	other := limiter.Request{Key: req.Key, Limit: limit, Cost: 5}
	ctx := context.Background()
	decided(t, store, limiter.Take, other)
	begin := now
	decided(t, store, limiter.Take, req) // its answer is lost
	decided(t, store, limiter.Take, other)
	now = now.Add(2 * time.Second)
	d, err := waiter.Take(ctx, req)
	if err != nil || !d[0].Allowed || !d[0].Repeated || d[0].Granted != 1 || now.Sub(begin) != 5*time.Second {
		t.Errorf("asked again, it is %+v, %v after %v; its turn was after 5 s", d, err, now.Sub(begin))
	}

	// A turn that comes too late for this caller stays with the call that was granted it.
	req.Token = "late"
	decided(t, store, limiter.Take, req)
	used := decided(t, store, limiter.Peek, other).Used
	waiter.Patience = time.Second
	if d, err := waiter.Take(ctx, req); err != nil || d[0].Allowed || d[0].RetryAfter <= 0 {
		t.Errorf("a turn that comes too late is %+v, %v", d, err)
	}
	if d := decided(t, store, limiter.Peek, other); d.Used != used {
		t.Errorf("%d used before, %d after a caller left its turn", used, d.Used)
	}

	// What is not remembered waits as ever.
	req = limiter.Request{Key: limiter.Key{Subject: "b"}, Limit: limiter.Limit{Count: 1, Period: time.Second}, Cost: 1, Token: "b"}
	waiter.Patience = 0
	decided(t, store, limiter.Take, limiter.Request{Key: req.Key, Limit: req.Limit, Cost: 1})
	begin = now
	if d, err := waiter.Take(ctx, req); err != nil || !d[0].Allowed || d[0].Repeated || now.Sub(begin) != time.Second {
		t.Errorf("it waits %v: %+v, %v", now.Sub(begin), d, err)
	}
}

func decided(t *testing.T, store limiter.Store, op limiter.Op, req limiter.Request) limiter.Decision {
	t.Helper()
	decisions := make([]limiter.Decision, 1)
	if err := store.Decide(context.Background(), op, []limiter.Request{req}, decisions); err != nil {
		t.Fatal(err)
	}
	return decisions[0]
}

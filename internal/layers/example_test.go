package layers_test

import (
	"context"
	"fmt"
	"time"

	"github.com/limitctl/limitctl/internal/layers"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// exampleStore stands for the store of a service. It is in memory with a clock that stands still, so that the
// examples always print the same.
func exampleStore() store.Store {
	noon := time.Date(2026, 3, 29, 12, 0, 0, 0, time.UTC)
	return memorystore.New(memorystore.WithClock(func() time.Time { return noon }))
}

// One limit: three in ten seconds for each user.
func ExampleLimiter_Take() {
	limits := layers.New(exampleStore())
	threeInTenSeconds := store.Limit{Count: 3, Period: 10 * time.Second}
	for range 4 {
		d, err := limits.Take(context.Background(), store.Key{Subject: "user:42"}, threeInTenSeconds, 1)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(d.Allowed, "remaining", d.Remaining, "retry after", d.RetryAfter.Round(time.Millisecond))
	}
	// Output:
	// true remaining 2 retry after 0s
	// true remaining 1 retry after 0s
	// true remaining 0 retry after 0s
	// false remaining 0 retry after 3.333s
}

// Several limits, charged together or not at all.
func ExampleLimiter_TakeAll() {
	limits := layers.New(exampleStore())
	user := store.Key{Subject: "user:42"}
	reqs := []store.Request{
		{Key: user, Limit: store.Limit{Count: 2, Period: time.Second}, Cost: 1},
		{Key: user, Limit: store.Limit{Algorithm: store.SlidingLog, Count: 100, Period: time.Hour}, Cost: 1},
	}
	for range 3 {
		decisions, err := limits.TakeAll(context.Background(), reqs...)
		if err != nil {
			fmt.Println(err)
			return
		}
		sum := store.Summarize(decisions)
		fmt.Println(sum.Allowed, "retry after", sum.RetryAfter, "denied by", sum.DeniedBy, "used of the hour", decisions[1].Used)
	}
	// Output:
	// true retry after 0s denied by [] used of the hour 1
	// true retry after 0s denied by [] used of the hour 2
	// false retry after 500ms denied by [0] used of the hour 2
}

// A worker that sends no more than twenty mails a second waits for its turn.
func ExampleLimiter_Wait() {
	limits := layers.New(memorystore.New())
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for mail := range 3 {
		limit := store.Limit{Algorithm: store.LeakyBucket, Count: 20, Period: time.Second}
		if _, err := limits.Wait(ctx, store.Key{Subject: "mails"}, limit, 1); err != nil {
			fmt.Println(err) // stop the worker: its context ended, the store is away, or the turn would come too late
			return
		}
		fmt.Println("send mail", mail)
	}
	// Output:
	// send mail 0
	// send mail 1
	// send mail 2
}

// Units that were not needed go back.
func ExampleLimiter_Refund() {
	limits := layers.New(exampleStore())
	ctx, team := context.Background(), store.Key{Subject: "llm:team-a"}
	tokens := store.Limit{Count: 100_000, Period: time.Minute}
	if d, err := limits.Take(ctx, team, tokens, 4000); err != nil || !d.Allowed {
		fmt.Println(d, err)
		return
	}
	d, err := limits.Refund(ctx, team, tokens, 4000-1500) // the answer was shorter than reserved
	fmt.Println(d.Used, "used", err)
	// Output: 1500 used <nil>
}

// A policy: the limits of a login by address and by e-mail address.
func ExampleRequest_policy() {
	login := policy.Policy{Name: "login", Limits: []policy.Limit{
		{Name: "ip", By: []string{"ip"}, Limit: store.Limit{Count: 10, Period: time.Minute}},
		{Name: "email", By: []string{"email"}, Limit: store.Limit{Count: 2, Period: time.Minute}},
	}}
	limits := layers.New(exampleStore())
	for range 3 {
		reqs, err := login.Requests(policy.Attributes{"ip": "203.0.113.9", "email": "a@example.com"}, 1)
		if err != nil {
			fmt.Println(err)
			return
		}
		decisions, err := limits.TakeAll(context.Background(), reqs...)
		if err != nil {
			fmt.Println(err)
			return
		}
		for _, i := range store.Summarize(decisions).DeniedBy {
			fmt.Println("denied by the limit for each", login.Limits[i].Name)
		}
	}
	// Output: denied by the limit for each email
}

// A store that is away.
type awayStore struct{ store.Store }

func (awayStore) Decide(context.Context, store.Op, []store.Request, []store.Decision) error {
	return fmt.Errorf("%w: no answer in time", store.ErrUnavailable)
}

// While the store is away all requests are allowed, and an alarm is raised.
func ExampleWithFailurePolicy() {
	backend := layers.WithFailurePolicy(awayStore{}, store.AllowOnError, func(err error) { fmt.Println("alarm:", err) })
	d, err := layers.New(backend).Take(context.Background(), store.Key{Subject: "user:42"},
		store.Limit{Count: 10, Period: time.Minute}, 1)
	fmt.Println("allowed", d.Allowed, "unguarded", d.Unguarded, err)
	// Output:
	// alarm: store unavailable: no answer in time
	// allowed true unguarded true <nil>
}

// While the store is away, this process decides with a fifth of each limit.
func ExampleWithFailure() {
	backend := layers.WithFailure(awayStore{}, layers.Failure{Policy: store.LocalOnError, Share: store.WholeShare / 5})
	limits := layers.New(backend)
	for range 3 {
		d, err := limits.Take(context.Background(), store.Key{Subject: "user:42"}, store.Limit{Count: 10, Period: time.Minute}, 1)
		fmt.Println("allowed", d.Allowed, "by", d.DecidedBy, err)
	}
	// Output:
	// allowed true by local <nil>
	// allowed true by local <nil>
	// allowed false by local <nil>
}

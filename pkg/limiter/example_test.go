package limiter_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// noon is a store whose clock stands still, so that examples always print the same.
func noon() *memorystore.Store {
	now := time.Date(2026, 3, 29, 12, 0, 0, 0, time.UTC)
	return memorystore.New(memorystore.WithClock(func() time.Time { return now }))
}

// must is for examples; a service handles the error.
func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// Three requests in ten seconds for each user.
func Example() {
	limits, err := limiter.New(noon()) // a service of several processes has a redisstore here
	if err != nil {
		fmt.Println(err)
		return
	}
	defer limits.Close()
	api := limiter.Per("api", 3, 10*time.Second)

	for range 4 {
		d, err := limits.Take(context.Background(), api.For("user", "42"))
		switch {
		case err != nil:
			fmt.Println("nothing was decided:", err)
		case !d.Allowed():
			fmt.Println("try again in", d.RetryAfter().Round(time.Millisecond))
		default:
			fmt.Println("go ahead;", d.Remaining(), "left")
		}
	}
	// Output:
	// go ahead; 2 left
	// go ahead; 1 left
	// go ahead; 0 left
	// try again in 3.333s
}

// Several limits are charged together, or none of them.
func ExampleLimiter_Take() {
	limits := must(limiter.New(noon()))
	defer limits.Close()
	second := limiter.Per("second", 2, time.Second)
	hour := limiter.Limit{Name: "hour", Count: 100, Period: time.Hour, Algorithm: limiter.SlidingLog}

	for range 3 {
		d := must(limits.Take(context.Background(), second.For("user", "42"), hour.For("user", "42")))
		fmt.Println(d.Allowed(), "denied by", d.DeniedBy(), "used of the hour", d.At(1).Used)
	}
	// Output:
	// true denied by [] used of the hour 1
	// true denied by [] used of the hour 2
	// false denied by [0] used of the hour 2
}

// Workers send mails at an even rate, each in its turn. The store can be shared by many processes.
func ExampleLimiter_Wait() {
	limits := must(limiter.New(memorystore.New()))
	defer limits.Close()
	mails := limiter.Per("mails", 500, time.Second).Leaky(1000)

	for _, mail := range []string{"one", "two", "three"} {
		if err := limits.Wait(context.Background(), mails.For("all")); err != nil {
			fmt.Println(err) // stop the worker: its context ended, the store is away, or the turn would come too late
			return
		}
		fmt.Println("send", mail)
	}
	// Output:
	// send one
	// send two
	// send three
}

// A call of a language model takes an estimate of its tokens, and settles with the real cost.
func ExampleLimiter_Reserve() {
	limits := must(limiter.New(noon(), limiter.FailLocal(0.25)))
	defer limits.Close()
	tokens := limiter.Per("tokens", 10_000, time.Minute)
	calls := limiter.Per("calls", 60, time.Minute)
	all := limiter.Per("all", 1_000_000, time.Minute)
	model := func(context.Context) (answer string, took int64, err error) { return "blue", 1500, nil }

	ask := func(ctx context.Context, team string, estimate int64) (string, error) {
		r, err := limits.Reserve(ctx, tokens.For("team", team).N(estimate), calls.For("team", team),
			all.For("all").N(estimate))
		if err != nil {
			return "", errors.Join(err, r.Cancel(ctx))
		}
		answer, took, err := model(ctx)
		return answer, errors.Join(err, r.Settle(ctx, took, 1, took))
	}
	for range 3 {
		answer, err := ask(context.Background(), "red", 8000)
		if denied, is := errors.AsType[*limiter.DeniedError](err); is {
			fmt.Println("busy; try again in", denied.RetryAfter())
		} else {
			fmt.Println(answer, err)
		}
	}
	fmt.Println(must(limits.Peek(context.Background(), tokens.For("team", "red"))).At(0).Used, "tokens are used")
	// Output:
	// blue <nil>
	// blue <nil>
	// busy; try again in 6s
	// 3000 tokens are used
}

// gone is a store that is away.
type gone struct{ limiter.Store }

func (gone) Decide(context.Context, store.Op, []store.Request, []store.Decision) error {
	return limiter.ErrUnavailable
}

// While the store is away, this process decides by a fifth of each limit.
func ExampleFailLocal() {
	limits := must(limiter.New(gone{noon()}, limiter.FailLocal(0.2), limiter.Observer{
		OnFailure: func(err error) { fmt.Println("alarm:", err) },
	}))
	defer limits.Close()
	for range 3 {
		d, err := limits.Take(context.Background(), limiter.Per("api", 10, time.Minute).For("user", "42"))
		fmt.Println(d.Allowed(), "by", d.DecidedBy(), err)
	}
	// Output:
	// alarm: store unavailable
	// true by local <nil>
	// alarm: store unavailable
	// true by local <nil>
	// alarm: store unavailable
	// false by local <nil>
}

// generous is a wrapper of the application: it denies nothing to one subject.
type generous struct {
	limiter.Store
	subject string
}

func (g generous) Decide(ctx context.Context, op store.Op, requests []store.Request, decisions []store.Decision) error {
	if err := g.Store.Decide(ctx, op, requests, decisions); err != nil {
		return err
	}
	for i := range requests {
		decisions[i].Allowed = decisions[i].Allowed || requests[i].Key.Subject == g.subject
	}
	return nil
}

// A wrapper of your own sees each call, and may change its answer.
func ExampleAround() {
	limits := must(limiter.New(noon(), limiter.Around(func(s limiter.Store) limiter.Store {
		return generous{s, "user:admin"}
	})))
	defer limits.Close()
	once := limiter.Per("once", 1, time.Hour)
	for _, user := range []string{"42", "42", "admin", "admin"} {
		fmt.Println(user, must(limits.Take(context.Background(), once.For("user", user))).Allowed())
	}
	// Output:
	// 42 true
	// 42 false
	// admin true
	// admin true
}

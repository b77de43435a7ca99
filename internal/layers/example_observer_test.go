package layers_test

import (
	"context"
	"expvar"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/limitctl/limitctl/internal/layers"
	"github.com/limitctl/limitctl/internal/storecall"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Counters by decider and outcome, and of the denials of each limit, which expvar shows under /debug/vars. A
// metrics library is used in the same way. Subjects are never labels: their number is unbounded.
func ExampleWithObserver() {
	calls, denied := new(expvar.Map), new(expvar.Map) // expvar.Publish shows them
	backend := layers.WithObserver(exampleStore(), layers.Observer{
		OnCall: func(_ context.Context, call layers.Call) {
			decider := "nobody"
			if len(call.Decisions) > 0 {
				decider = call.Decisions[0].DecidedBy.String()
			}
			calls.Add(decider+" "+call.Outcome(), 1)
			if call.Op != store.Take {
				return
			}
			for i, d := range call.Decisions {
				if req := call.Requests[i]; !d.Allowed && !d.Shadow {
					req.SetDefaults() // for its name
					denied.Add(req.Key.Name, 1)
				}
			}
		},
	})
	limits := storecall.New(backend)
	twoAMinute := store.Limit{Count: 2, Period: time.Minute}
	for range 3 {
		limits.Take(context.Background(), store.Key{Subject: "user:42"}, twoAMinute, 1)
	}
	limits.Take(context.Background(), store.Key{Subject: "user:42"}, twoAMinute, 5)
	fmt.Println(calls)
	fmt.Println(denied)
	// Output:
	// {"nobody invalid": 1, "store allowed": 2, "store denied": 1}
	// {"token-bucket/1m": 1}
}

// A log of what goes wrong: errors, decisions of a failure policy, and the breaker.
func ExampleObserver() {
	withoutTime := slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}
	log := slog.New(slog.NewTextHandler(os.Stdout, &withoutTime))
	observer := layers.Observer{
		OnCall: func(ctx context.Context, call layers.Call) {
			if call.Err != nil {
				log.ErrorContext(ctx, "rate limit", "op", call.Op, "outcome", call.Outcome(), "error", call.Err)
			}
		},
		OnFailure: func(err error) { log.Warn("rate limit store is away; all are let in", "error", err) },
		OnBreaker: func(c layers.BreakerChange) {
			log.Warn("rate limit breaker", "part", c.Shard, "from", c.From, "to", c.To, "reason", c.Reason)
		},
	}
	backend := layers.WithBreaker(awayStore{}, observer.Breaker(layers.Breaker{Failures: 2}))
	backend = layers.WithFailure(backend, layers.Failure{Policy: store.AllowOnError, OnFailure: observer.Failure()})
	limits := storecall.New(layers.WithObserver(backend, observer))
	user, tenAMinute := store.Key{Subject: "user:42"}, store.Limit{Count: 10, Period: time.Minute}
	limits.Refund(context.Background(), user, tenAMinute, 1)
	limits.Take(context.Background(), user, tenAMinute, 1)
	// Output:
	// level=ERROR msg="rate limit" op=refund outcome=unavailable error="store unavailable: no answer in time"
	// level=WARN msg="rate limit breaker" part="" from=closed to=open reason="store unavailable: no answer in time"
	// level=WARN msg="rate limit store is away; all are let in" error="store unavailable: no answer in time"
}

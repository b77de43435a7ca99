package limiter_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter"
)

// silentStore never answers, as a store does that keeps a caller's deadline.
type silentStore struct{ limiter.Store }

func (silentStore) Decide(ctx context.Context, _ limiter.Op, _ []limiter.Request, _ []limiter.Decision) error {
	<-ctx.Done()
	if err := limiter.GaveUp(ctx); err != nil {
		return err
	}
	return fmt.Errorf("%w: silence", limiter.ErrUnavailable)
}

// A store's time and a caller's time are two things: the end of the first is an outage,
// for which there is a policy, and the end of the second is the caller's own affair.
func TestAStoresBudgetIsNotTheCallersTime(t *testing.T) {
	const short, long = time.Millisecond, time.Hour
	ended, end := context.WithCancel(context.Background())
	end()
	for _, test := range []struct {
		name           string
		ctx            context.Context
		caller, budget time.Duration
		gaveUp         error // nil where the store is away
	}{
		{"the store's time is over", context.Background(), long, short, nil},
		{"the caller's time is over", context.Background(), short, long, context.DeadlineExceeded},
		{"the caller has left", ended, long, long, context.Canceled},
	} {
		t.Run(test.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(test.ctx, test.caller)
			defer cancel()
			store := limiter.WithFailurePolicy(limiter.WithBudget(silentStore{}, test.budget), limiter.AllowOnError, nil)
			d, err := limiter.New(store).Take(ctx, limiter.Key{Subject: "u"}, limiter.Limit{Count: 1, Period: time.Hour}, 1)
			if test.gaveUp == nil && (err != nil || !d.Unguarded) {
				t.Errorf("%+v, %v; want the policy's answer", d, err)
			}
			if test.gaveUp != nil && (!errors.Is(err, limiter.ErrGaveUp) || !errors.Is(err, test.gaveUp) || limiter.IsAway(err)) {
				t.Errorf("%v; want an ErrGaveUp that is %v", err, test.gaveUp)
			}
		})
	}
}

package operation

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// A batch that the store does not answer is tried again for retryTime: longer than a failover, or a
// server that forks to save its memory, keeps it from answering. The pauses grow, so that a server
// that is slow because of load does not get more of it.
const (
	retryTime    = time.Minute
	firstPause   = 200 * time.Millisecond
	longestPause = 5 * time.Second
)

// retry calls try until the store answers, for up to retryTime. try gets whether the store may have
// carried out an earlier try whose answer did not come. It is for work that can be repeated: a second
// try loses only the usage between the two tries. The error is a [store.ErrOutcomeUnknown] if the outcome
// of any try is unknown and the store answered no later try.
func (r *Runner) retry(ctx context.Context, try func(ctx context.Context, unsure bool) error) error {
	var unanswered error
	var giveUp time.Time
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		err := r.within(ctx, func(ctx context.Context) error { return try(ctx, unanswered != nil) })
		again := store.IsAway(err)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, store.ErrOutcomeUnknown):
			unanswered = err
		case unanswered != nil:
			err = errors.Join(unanswered, err)
		}
		if now := r.Now(); giveUp.IsZero() {
			giveUp = now.Add(retryTime)
			if again && ctx.Err() == nil && r.Warn != nil {
				r.Warn(fmt.Errorf("%w; trying again for up to %s", err, retryTime))
			}
		} else if !now.Before(giveUp) {
			return err
		}
		if !again || r.Sleep(ctx, pause) != nil {
			return err
		}
	}
}

// within calls try with the time that one exchange with the store may take, also if the operation is
// interrupted meanwhile: a batch that has begun is finished, so that the count is right.
func (r *Runner) within(ctx context.Context, try func(context.Context) error) error {
	ctx, cancel := store.BudgetContext(context.WithoutCancel(ctx), r.Timeout)
	defer cancel()
	return try(ctx)
}

// certainly says that something is done of which the count is right, or may be too low because of err.
func certainly(done string, err error) string {
	if errors.Is(err, store.ErrOutcomeUnknown) {
		return "known to be " + done
	}
	return done
}

// goOn says how to go on after so much was done of a change, if the store did not answer then. overwrites: a second run
// would change again what is done.
func goOn(err error, done int64, overwrites bool) string {
	if !store.IsAway(err) || done == 0 && !errors.Is(err, store.ErrOutcomeUnknown) {
		return ""
	}
	if overwrites {
		return "; a second run also changes the keys that are done, which forgets what was used of them since"
	}
	return "; run it again for the rest, with --timeout 30s if the server is slow"
}

// keysPerBatch is how many keys are changed between two looks at whether the operation was
// interrupted. A batch that has begun is finished, so that the count is right.
const keysPerBatch = 500

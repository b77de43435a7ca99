package operation

import (
	"context"
	"errors"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// keysPerBatch is how many keys are changed between two looks at whether the operation was interrupted. A batch that
// has begun is finished, so that the count is right.
const keysPerBatch = 500

// within calls try with the time that one exchange with the store may take, also if the operation is interrupted
// meanwhile.
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

package operation

import (
	"context"

	"github.com/limitctl/limitctl/pkg/limiter"
)

// RefundPlan says what to give back: the cost of each request, the newest units first and
// never more than are in use.
type RefundPlan struct {
	Requests []limiter.Request
}

// RefundResult is what is used and what remains after a refund.
type RefundResult struct {
	Decisions []limiter.Decision // one of each request
	// WithoutOverrides is why the overrides in force could not be read, so that none was
	// applied; nil if they were.
	WithoutOverrides error
}

// Refund gives units back, all at one instant.
func (r *Runner) Refund(ctx context.Context, plan *RefundPlan) (*RefundResult, error) {
	ctx, cancel := limiter.BudgetContext(ctx, r.Timeout)
	defer cancel()
	watch := limiter.WatchOverrides(r.Store, limiter.Overrides{})
	defer watch.Close()
	loading, loaded := limiter.BudgetContext(ctx, r.Timeout/OverrideShare)
	defer loaded()
	result := &RefundResult{Decisions: make([]limiter.Decision, len(plan.Requests)), WithoutOverrides: watch.Load(loading)}
	if err := watch.Wrap(r.Store).Decide(ctx, limiter.Refund, plan.Requests, result.Decisions); err != nil {
		return nil, err
	}
	return result, nil
}

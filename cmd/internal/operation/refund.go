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
}

// Refund gives units back, all at one instant.
func (r *Runner) Refund(ctx context.Context, plan *RefundPlan) (*RefundResult, error) {
	ctx, cancel := limiter.BudgetContext(ctx, r.Timeout)
	defer cancel()
	decisions := make([]limiter.Decision, len(plan.Requests))
	if err := r.Store.Decide(ctx, limiter.Refund, plan.Requests, decisions); err != nil {
		return nil, err
	}
	return &RefundResult{decisions}, nil
}

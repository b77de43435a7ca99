package operation

import (
	"context"

	"github.com/limitctl/limitctl/internal/layers"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// RefundPlan says what to give back: the cost of each request, the newest units first and
// never more than are in use.
type RefundPlan struct {
	Requests []store.Request
	// Text is the refund in the words of a command line, for the audit log.
	Text    string
	Consent Consent
}

// RefundResult is what is used and what remains after a refund.
type RefundResult struct {
	Decisions []store.Decision // one of each request
	// WithoutOverrides is why the overrides in force could not be read, so that none was
	// applied; nil if they were.
	WithoutOverrides error
}

// Refund gives units back, all at one instant. In a protected place it asks before.
func (r *Runner) Refund(ctx context.Context, plan *RefundPlan, observer Observer) (result *RefundResult, err error) {
	take := func(ctx context.Context) (decisions []store.Decision, err error) {
		if result, err = r.refund(ctx, plan); err != nil {
			return nil, err
		}
		return result.Decisions, nil
	}
	_, err = r.charge(ctx, observer, "refund", "Refund",
		&ConsumePlan{Requests: plan.Requests, Text: plan.Text, Consent: plan.Consent, Take: take})
	return result, err
}

func (r *Runner) refund(ctx context.Context, plan *RefundPlan) (*RefundResult, error) {
	ctx, cancel := store.BudgetContext(ctx, r.Timeout)
	defer cancel()
	watch := layers.WatchOverrides(r.Store, store.Overrides{}, layers.Env{})
	defer watch.Close()
	loading, loaded := store.BudgetContext(ctx, r.Timeout/OverrideShare)
	defer loaded()
	result := &RefundResult{Decisions: make([]store.Decision, len(plan.Requests)), WithoutOverrides: watch.Load(loading)}
	backend := layers.Stack(r.Store, layers.Layers{Overrides: watch})
	if err := backend.Decide(ctx, store.Refund, plan.Requests, result.Decisions); err != nil {
		return nil, err
	}
	return result, nil
}

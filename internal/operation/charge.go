package operation

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/limitctl/limitctl/internal/layers"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// ConsumePlan says what is taken, and how.
type ConsumePlan struct {
	Requests []store.Request
	// Text is the request in the words of a command line, for the audit log.
	Text    string
	Consent Consent
	// Take takes the units, if they fit.
	Take func(ctx context.Context) ([]store.Decision, error)
}

// Consume takes units. A large request in a protected place is asked about before, and
// written down in the audit log, as it leaves the others little or nothing.
func (r *Runner) Consume(ctx context.Context, plan *ConsumePlan, observer Observer) ([]store.Decision, error) {
	if !IsLarge(plan.Requests) {
		return plan.Take(ctx)
	}
	return r.charge(ctx, observer, "consume", "Consume", plan)
}

// IsLarge reports whether requests take so much that others feel it: more than one unit, and at
// least half of what one of their limits holds. A single unit never is: one deploy of two a
// day is what the limit is for.
func IsLarge(reqs []store.Request) bool {
	return slices.ContainsFunc(reqs, func(r store.Request) bool { return r.Cost > 1 && r.Cost >= (r.Limit.Capacity()+1)/2 })
}

// charge takes units or refunds them. In a protected place it is a change like a reset: it asks, with
// the verb, and is written down.
func (r *Runner) charge(ctx context.Context, observer Observer, command, verb string, plan *ConsumePlan) (
	decisions []store.Decision, err error) {
	if err := plan.Consent.Check(r.Place.Access, command); err != nil {
		return nil, err
	}
	if !r.Place.Protected {
		return plan.Take(ctx)
	}
	entry := r.newEntry(command, plan.Text)
	entry.Matched = int64(len(plan.Requests))
	question := verb + " " + unitsOf(plan.Requests)
	_, err = r.change(ctx, observer, &change{entry: entry, consent: plan.Consent, question: question, make: func() (err error) {
		decisions, err = plan.Take(ctx)
		switch {
		case errors.Is(err, store.ErrOutcomeUnknown):
			entry.Unknown = entry.Matched
		case err == nil:
			for i := range decisions {
				if d := &decisions[i]; d.Refunded > 0 || d.Granted > 0 && !d.Repeated {
					entry.Changed++
				}
			}
		}
		return err
	}})
	return decisions, err
}

// unitsOf says how many units of what requests are about.
func unitsOf(reqs []store.Request) string {
	if slices.ContainsFunc(reqs, func(r store.Request) bool { return r.Cost != reqs[0].Cost }) {
		var parts []string
		for i := range reqs {
			parts = append(parts, output.Plural(int(reqs[i].Cost), "unit")+" of "+reqs[i].Key.Subject+" "+reqs[i].Key.Name)
		}
		return strings.Join(parts, " and ")
	}
	text := output.Plural(int(reqs[0].Cost), "unit") + " of " + reqs[0].Key.Subject
	if more := len(reqs) - 1; more > 0 {
		text += " and of " + output.Plural(more, "other limit")
	}
	return text
}

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

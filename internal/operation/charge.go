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

// ChargePlan says what is taken, or given back: the cost of each request, the newest units first and never more than are in use.
type ChargePlan struct {
	Requests []store.Request
	// Text is the request in the words of a command line, for the audit log.
	Text    string
	Consent Consent
}

// taking takes units, or refunds them.
type taking func(context.Context) ([]store.Decision, error)

// Consume takes units by take, if they fit. A large request in a protected place is asked about before, and
// written down in the audit log, as it leaves the others little or nothing.
func (r *Runner) Consume(ctx context.Context, plan *ChargePlan, observer Observer, take taking) ([]store.Decision, error) {
	if !IsLarge(plan.Requests) {
		return take(ctx)
	}
	return r.charge(ctx, observer, "consume", plan, take)
}

// IsLarge reports whether requests take so much that others feel it: more than one unit, and at
// least half of what one of their limits holds. A single unit never is: one deploy of two a
// day is what the limit is for.
func IsLarge(reqs []store.Request) bool {
	return slices.ContainsFunc(reqs, func(r store.Request) bool { return r.Cost > 1 && r.Cost >= (r.Limit.Capacity()+1)/2 })
}

// charge takes units or refunds them. In a protected place it is a change like a reset: it asks and is written down.
func (r *Runner) charge(ctx context.Context, observer Observer, command string, plan *ChargePlan, take taking) (
	decisions []store.Decision, err error) {
	if err := plan.Consent.Check(r.Place.Access, command); err != nil {
		return nil, err
	}
	if !r.Place.Protected {
		return take(ctx)
	}
	counts := &Counts{Matched: int64(len(plan.Requests))}
	question := strings.ToUpper(command[:1]) + command[1:] + " " + unitsOf(plan.Requests)
	_, err = r.change(ctx, observer, &change{entry: r.newEntry(command, plan.Text), Counts: counts, consent: plan.Consent,
		question: question, make: func() (err error) {
			decisions, err = take(ctx)
			if errors.Is(err, store.ErrOutcomeUnknown) {
				counts.Unknown = counts.Matched
			}
			for i := range decisions {
				if d := &decisions[i]; err == nil && (d.Refunded > 0 || d.Granted > 0 && !d.Repeated) {
					counts.Changed++
				}
			}
			return err
		}})
	return decisions, err
}

// unitsOf says how many units of what requests are about.
func unitsOf(reqs []store.Request) string {
	parts := make([]string, len(reqs))
	for i := range reqs {
		parts[i] = output.Plural(int(reqs[i].Cost), "unit") + " of " + reqs[i].Key.Subject + " " + reqs[i].Key.Name
	}
	return strings.Join(parts, " and ")
}

// Refund gives units back, all at one instant. In a protected place it asks before. withoutOverrides is why the overrides in
// force could not be read, so that none was applied; nil if they were.
func (r *Runner) Refund(ctx context.Context, plan *ChargePlan, observer Observer) (
	decisions []store.Decision, withoutOverrides, err error) {
	decisions, err = r.charge(ctx, observer, "refund", plan, func(ctx context.Context) ([]store.Decision, error) {
		ctx, cancel := store.BudgetContext(ctx, r.Timeout)
		defer cancel()
		watch := layers.WatchOverrides(r.Store, store.Overrides{}, layers.Env{})
		defer watch.Close()
		loading, loaded := store.BudgetContext(ctx, r.Timeout/OverrideShare)
		defer loaded()
		withoutOverrides = watch.Load(loading)
		decisions := make([]store.Decision, len(plan.Requests))
		err := layers.Stack(r.Store, layers.Layers{Overrides: watch}).Decide(ctx, store.Refund, plan.Requests, decisions)
		if err != nil {
			return nil, err
		}
		return decisions, nil
	})
	return decisions, withoutOverrides, err
}

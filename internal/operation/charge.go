package operation

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// ChargePlan says what is taken, or given back: the cost of each request, the newest units first and never more than
// are in use.
type ChargePlan struct {
	Command  string // "consume" or "refund"
	Requests []store.Request
	// Text is the request in the words of a command line, for the audit log.
	Text    string
	Consent Consent
}

// IsLarge reports whether requests take so much that others feel it: more than one unit, and at least half of what one
// of their limits holds. A single unit never is: one deploy of two a day is what the limit is for.
func IsLarge(reqs []store.Request) bool {
	return slices.ContainsFunc(reqs, func(r store.Request) bool {
		return r.Cost > 1 && r.Cost >= (r.Limit.Capacity()+1)/2
	})
}

// Charge takes units, or refunds them, by take. In a protected place a refund, or a large consumption, which leaves the
// others little or nothing, is a change like a reset: it asks and is written down in the audit log.
func (r *Runner) Charge(ctx context.Context, plan *ChargePlan, observer Observer,
	take func(context.Context) ([]store.Decision, error)) (decisions []store.Decision, err error) {
	command := plan.Command
	if command == "consume" && !IsLarge(plan.Requests) {
		return take(ctx)
	}
	if err := plan.Consent.Check(r.Place.Access, command); err != nil {
		return nil, err
	}
	if !r.Place.Protected {
		return take(ctx)
	}
	counts := &Counts{Matched: int64(len(plan.Requests))}
	question := strings.ToUpper(command[:1]) + command[1:] + " " + unitsOf(plan.Requests)
	_, err = r.change(ctx, observer, &change{entry: r.newEntry(command, plan.Text), Counts: counts,
		consent:  plan.Consent,
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
		parts[i] = output.Count(int(reqs[i].Cost), "unit") + " of " + reqs[i].Key.Subject + " " + reqs[i].Key.Name
	}
	return strings.Join(parts, " and ")
}

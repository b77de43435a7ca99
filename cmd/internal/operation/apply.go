package operation

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/allowance"
	"github.com/limitctl/limitctl/cmd/internal/outcome"
	"github.com/limitctl/limitctl/internal/overridetable"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// minApplied is the least time that an override has left when it is applied.
const minApplied = time.Second

// sameEnd is how much two ends differ that count as one. The clocks of machines and of a store differ, and so do the
// times that calls take.
const sameEnd = 10 * time.Second

// ApplyPlan says which overrides an owner wants in force.
type ApplyPlan struct {
	Owner string
	// Overrides have their ends in ExpiresAt, and are different: see [overridetable.Identity].
	Overrides []store.Override
	// Prune ends the overrides that the owner set before and does not want any more.
	Prune   bool
	Consent Consent
}

// ApplyStep is one change of an apply.
type ApplyStep struct {
	Do string // DoSet, DoChange or DoRevoke
	// Override is what is set, or what is revoked.
	Override store.Override
	// Before is what is changed; nil for another step.
	Before *store.Override
}

// The words of what a step does, in JSON.
const (
	DoSet    = "set"
	DoChange = "change"
	DoRevoke = "revoke"
)

// ApplyDifference is how the overrides in force differ from what an owner wants.
type ApplyDifference struct {
	Steps []ApplyStep
	// Same is how many overrides are in force as wanted, and Over how many have ended already.
	Same, Over int
	// Kept are overrides that a person has set for longer than wanted. They stay as they are.
	Kept []store.Override
	// Left are those that the owner set before and does not want any more, if they are not pruned.
	Left []store.Override
	// ahead is how far the clock of the store is ahead of that of the machine, as far as its overrides tell.
	ahead time.Duration
}

// Difference returns what an apply would change. It changes nothing.
func (r *Runner) Difference(ctx context.Context, plan *ApplyPlan) (*ApplyDifference, error) {
	inForce, err := r.Overrides(ctx)
	if err != nil {
		return nil, err
	}
	d := &ApplyDifference{}
	now := r.Now()
	if len(inForce) > 0 {
		ofStore := inForce[0].ExpiresAt.Add(-inForce[0].Left)
		now, d.ahead = ofStore, ofStore.Sub(now)
	}
	var wanted []store.Override // that have not ended
	for _, o := range plan.Overrides {
		switch lasts := o.ExpiresAt.Sub(now); {
		case lasts < minApplied:
			d.Over++
			continue
		case lasts > store.MaxOverrideTime:
			return nil, store.Invalidf("%s: it ends in %s by the clock of the store; an override lasts at most 30d", allowance.All(&o),
				store.FormatPeriod(lasts.Round(time.Second)))
		}
		o.Owner, o.By = plan.Owner, r.User
		wanted = append(wanted, o)
	}
	there := map[string]*store.Override{}
	for i := range inForce {
		there[overridetable.Identity(&inForce[i])] = &inForce[i]
	}
	keep := map[string]bool{}
	added := 0
	for _, o := range wanted {
		identity := overridetable.Identity(&o)
		keep[identity] = true
		is := there[identity]
		if is == nil {
			d.Steps = append(d.Steps, ApplyStep{Do: DoSet, Override: o})
			added++
			continue
		}
		later := o.ExpiresAt.Sub(is.ExpiresAt)
		switch {
		case later.Abs() < sameEnd && o.Reason == is.Reason:
			d.Same++
		case is.Owner != "" && is.Owner != plan.Owner:
			return nil, fmt.Errorf("%w: override %s (%s) is of another owner, %q; nothing was changed", store.ErrRefused, is.ID,
				allowance.All(is), is.Owner)
		case is.Owner == "" && later <= -sameEnd:
			d.Kept = append(d.Kept, *is)
		default:
			o.Owner = is.Owner // what a person has set stays theirs
			d.Steps = append(d.Steps, ApplyStep{Do: DoChange, Override: o, Before: is})
		}
	}
	if len(inForce)+added > admin.MaxOverrides {
		return nil, fmt.Errorf("%w: %d overrides would be in force, and at most %d fit; nothing was changed", store.ErrRefused,
			len(inForce)+added, admin.MaxOverrides)
	}
	for _, is := range inForce {
		switch {
		case is.Owner != plan.Owner || keep[overridetable.Identity(&is)]:
		case plan.Prune:
			d.Steps = append(d.Steps, ApplyStep{Do: DoRevoke, Override: is})
		default:
			d.Left = append(d.Left, is)
		}
	}
	return d, nil
}

// same reports whether two differences have the same steps.
func (d *ApplyDifference) same(other *ApplyDifference) bool {
	return slices.EqualFunc(d.Steps, other.Steps, func(a, b ApplyStep) bool {
		return a.Do == b.Do && overridetable.Identity(&a.Override) == overridetable.Identity(&b.Override)
	})
}

// mostOfRun is the most changes in one run of the audit log, whose entry has room for about as many overrides. The
// journal of a store has few entries, so that a run for each change would drive out what others did.
const mostOfRun = 8

// Apply asks, and makes the changes of a difference, several in one run of the audit log. It returns the steps that were
// made, with their overrides as they are now. After an error the same plan can be applied again.
func (r *Runner) Apply(ctx context.Context, plan *ApplyPlan, d *ApplyDifference, observer Observer) (made []ApplyStep, err error) {
	if err := plan.Consent.Check(r.Place.Access, "override apply"); err != nil || len(d.Steps) == 0 {
		return nil, err
	}
	if !plan.Consent.Covers(r.Place.Access) {
		if err := r.confirm(ctx, observer, plan.Consent, "Make "+map[bool]string{true: "this change",
			false: fmt.Sprintf("these %d changes", len(d.Steps))}[len(d.Steps) == 1]); err != nil {
			return nil, err
		}
		now, err := r.Difference(ctx, plan) // a question can take minutes
		if err != nil {
			return nil, err
		}
		if !now.same(d) {
			return nil, fmt.Errorf("%w: the overrides in force changed meanwhile; nothing was changed; look at the difference again",
				store.ErrRefused)
		}
		d = now
	}
	a := &applying{Runner: r, plan: plan, observer: observer, ahead: d.ahead}
	if a.table, err = r.overrideTable(); err != nil {
		return nil, err
	}
	for rest := d.Steps; len(rest) > 0 && err == nil; {
		n := 1 // those that are revoked come last
		for n < min(mostOfRun, len(rest)) && (rest[n].Do == DoRevoke) == (rest[0].Do == DoRevoke) {
			n++
		}
		if err = ctx.Err(); err == nil {
			err = a.run(ctx, rest[:n])
		}
		rest = rest[n:]
	}
	if err != nil {
		err = outcome.WithProgress(err, "%d of %d changes made; apply the file again to go on", len(a.made), len(d.Steps))
		if len(a.made) > 0 {
			err = outcome.Partly(err)
		}
	}
	return a.made, err
}

// applying makes the changes of a difference.
type applying struct {
	*Runner
	plan     *ApplyPlan
	observer Observer
	table    admin.OverrideTable
	// ahead is how far the clock of the store is ahead of that of the machine, as far as it is known.
	ahead time.Duration
	made  []ApplyStep
}

// run makes changes in one run of the audit log: they set, or they revoke.
func (a *applying) run(ctx context.Context, steps []ApplyStep) error {
	command, reason := "override set", a.plan.Consent.Reason
	if steps[0].Do == DoRevoke {
		command, reason = revokeCommand, cmp.Or(reason, "no longer wanted by "+a.plan.Owner)
	}
	texts := make([]string, len(steps))
	for i := range steps {
		o := &steps[i].Override
		if texts[i] = allowance.All(o); command != revokeCommand {
			texts[i] += " until " + o.ExpiresAt.UTC().Format(time.RFC3339)
		}
	}
	selection := func() string { return "of the file of " + a.plan.Owner + ": " + strings.Join(texts, "; ") }
	entry := a.newEntry(command, selection())
	entry.Matched, entry.Reason = int64(len(steps)), reason
	agreed := Consent{Yes: true, Context: a.Place.Context}
	_, err := a.change(ctx, a.observer, &change{entry: entry, consent: agreed, make: func() error {
		for i := range steps {
			err := ctx.Err()
			var done *store.Override
			if err == nil {
				done, err = a.step(ctx, &steps[i])
			}
			if err != nil {
				if entry.Changed > 0 {
					err = outcome.Partly(err)
				}
				return err
			}
			if done == nil {
				continue // it has ended meanwhile
			}
			texts[i] += " (" + done.ID + ")"
			entry.Changed, entry.Selection = entry.Changed+1, selection()
			record(entry, done)
			a.made = append(a.made, ApplyStep{steps[i].Do, *done, steps[i].Before})
		}
		return nil
	}})
	return err
}

// step makes one change, also if the operation is interrupted meanwhile. It returns nil for an override that has ended.
func (a *applying) step(ctx context.Context, step *ApplyStep) (*store.Override, error) {
	if step.Do == DoRevoke {
		ended, found, err := a.revoke(ctx, a.table, step.Override.ID)
		if err != nil || !found {
			return nil, err
		}
		return &ended, nil
	}
	ends := step.Override.ExpiresAt
	var set *store.Override
	for {
		lasts := ends.Sub(a.Now().Add(a.ahead))
		switch {
		case lasts < store.MinOverrideTime && set != nil: // the first try showed that the store's clock is past its end
			_, _, err := a.revoke(ctx, a.table, set.ID)
			return nil, err
		case lasts < store.MinOverrideTime:
			return nil, nil
		}
		done, err := a.set(ctx, step.Override, lasts)
		if err != nil {
			return nil, err
		}
		known := a.ahead
		a.ahead = done.CreatedAt.Sub(a.Now())
		if set = &done; done.ExpiresAt.Sub(ends).Abs() < sameEnd || (a.ahead-known).Abs() < sameEnd/2 {
			return set, nil
		}
	}
}

func (a *applying) set(ctx context.Context, o store.Override, lasts time.Duration) (store.Override, error) {
	ctx, cancel := store.BudgetContext(context.WithoutCancel(ctx), a.Timeout)
	defer cancel()
	return a.table.SetOverride(ctx, o, lasts)
}

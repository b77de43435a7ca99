package operation

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
}

// Difference returns what an apply would change. It changes nothing.
func (r *Runner) Difference(ctx context.Context, plan *ApplyPlan) (*ApplyDifference, error) {
	inForce, err := r.Overrides(ctx)
	if err != nil {
		return nil, err
	}
	now := r.storeNow(inForce)
	d := &ApplyDifference{}
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

// storeNow is the instant by the clock of the store, as far as its overrides tell, and otherwise by that of the machine.
func (r *Runner) storeNow(inForce []store.Override) time.Time {
	if len(inForce) == 0 {
		return r.Now()
	}
	return inForce[0].ExpiresAt.Add(-inForce[0].Left)
}

// same reports whether two differences have the same steps.
func (d *ApplyDifference) same(other *ApplyDifference) bool {
	return slices.EqualFunc(d.Steps, other.Steps, func(a, b ApplyStep) bool {
		return a.Do == b.Do && overridetable.Identity(&a.Override) == overridetable.Identity(&b.Override)
	})
}

// Apply asks, and makes the changes of a difference. Each is a run of the audit log of its own. It returns the steps
// that were made, with their overrides as they are now. After an error the same plan can be applied again.
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
	agreed := Consent{Yes: true, Context: r.Place.Context, Reason: plan.Consent.Reason}
	for _, step := range d.Steps {
		err := ctx.Err()
		if err == nil {
			step.Override, err = r.applyStep(ctx, plan, step, agreed, observer)
		}
		if err != nil {
			err = outcome.WithProgress(err, "%d of %d changes made; apply the file again to go on", len(made), len(d.Steps))
			if len(made) > 0 {
				err = outcome.Partly(err)
			}
			return made, err
		}
		made = append(made, step)
	}
	return made, nil
}

// applyStep makes one change.
func (r *Runner) applyStep(ctx context.Context, plan *ApplyPlan, step ApplyStep, agreed Consent, observer Observer) (
	store.Override, error) {
	o := step.Override
	if step.Do == DoRevoke {
		agreed.Reason = "no longer wanted by " + plan.Owner
		_, err := r.RevokeOverrides(ctx, &RevokePlan{IDs: []string{o.ID}, Consent: agreed}, observer)
		if errors.Is(err, ErrNoOverride) { // it ended meanwhile
			err = nil
		}
		return o, err
	}
	now := r.Now()
	inForce, err := r.Overrides(ctx)
	if err != nil {
		return o, err
	}
	if now = r.storeNow(inForce); o.ExpiresAt.Sub(now) < store.MinOverrideTime {
		return o, nil // the changes before took that long
	}
	set := func(now time.Time) (*store.Override, error) {
		return r.SetOverride(ctx, &OverridePlan{Override: o, Lasts: o.ExpiresAt.Sub(now), Consent: agreed,
			Text: allowance.All(&o) + " until " + o.ExpiresAt.UTC().Format(time.RFC3339) + ", by the file of " + plan.Owner}, observer)
	}
	done, err := set(now)
	if err == nil && done.ExpiresAt.Sub(o.ExpiresAt).Abs() >= sameEnd { // the first one shows what the store's clock is
		if o.ExpiresAt.Sub(done.CreatedAt) < store.MinOverrideTime {
			return *done, fmt.Errorf("%w: by the clock of the store %s is over", store.ErrRefused, o.ExpiresAt.UTC().Format(time.RFC3339))
		}
		done, err = set(done.CreatedAt)
	}
	if done == nil {
		return o, err
	}
	return *done, err
}

package operation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/limitctl/limitctl/internal/allowance"
	"github.com/limitctl/limitctl/internal/auditlog"
	"github.com/limitctl/limitctl/internal/outcome"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// OverridePlan says which override to set, and for how long.
type OverridePlan struct {
	// Override is whom it is about, what it does and why. The runner says who sets it, and the store the rest.
	Override store.Override
	// Lasts is for how long, at most [store.MaxOverrideTime]. Until is when it ends, however long the answer to the
	// question takes; zero for what Lasts from then on.
	Lasts time.Duration
	Until time.Time
	// Text is the override in the words of a command line, for the audit log.
	Text    string
	Consent Consent
	// Selection finds the keys in use that it may be about, for [Runner.PreviewOverride]. Configured, if set, returns
	// the limit that the configuration has for a key. Where it has none, the limit of the key's last charge counts.
	Selection  Selection
	Configured func(store.Key) (store.Limit, bool)
	// Most, if above 0, is how long the keys are looked at.
	Most time.Duration
}

// SetOverride asks and sets an override. If it returns no override, nothing was
// changed, or the error says that the outcome is unknown.
func (r *Runner) SetOverride(ctx context.Context, plan *OverridePlan, observer Observer) (*store.Override, error) {
	table, err := r.overrideTable()
	if err != nil {
		return nil, err
	}
	wanted := plan.Override
	wanted.By = r.User
	command := "override set"
	if wanted.Effect == store.OverrideBlock || wanted.Effect == store.OverrideExempt {
		command = wanted.Effect.String() // these are commands of their own
	}
	entry, counts := r.newEntry(command, plan.Text), &Counts{Matched: 1}
	entry.Reason = wanted.Reason
	var set *store.Override
	_, err = r.change(ctx, observer, &change{entry: entry, Counts: counts, consent: plan.Consent,
		question: "Set this override for " + output.Duration(plan.Lasts), make: func() error {
			lasts := plan.Lasts
			if !plan.Until.IsZero() {
				lasts = plan.Until.Sub(r.Now())
			}
			return r.within(ctx, func(ctx context.Context) error {
				done, err := table.SetOverride(ctx, wanted, lasts)
				if err != nil {
					return err
				}
				set, counts.Changed = &done, 1
				entry.Selection += " (" + done.ID + ")"
				record(entry, &done)
				return nil
			})
		}})
	return set, err
}

// record adds an override to the entry of the run that set or revoked it.
func record(entry *auditlog.Entry, o *store.Override) {
	text, _, err := admin.EncodeOverride(o)
	if err != nil {
		return // it was read from a store, which may hold one that is larger than those of today
	}
	entry.Overrides = append(entry.Overrides, auditlog.Override{
		ID: o.ID, Override: []byte(text), CreatedAt: o.CreatedAt.UTC(),
		ExpiresAt: o.ExpiresAt.UTC()})
}

// RevokeOverrides asks and ends the overrides of these IDs, and returns those that it has ended. If one of them is not
// in force, none is ended.
func (r *Runner) RevokeOverrides(ctx context.Context, ids []string, consent Consent, observer Observer) (
	revoked []store.Override, err error) {
	table, err := r.overrideTable()
	if err != nil {
		return nil, err
	}
	inForce, err := r.inForce(ctx, ids)
	if err != nil {
		return nil, err
	}
	var texts []string
	for i := range inForce {
		texts = append(texts, inForce[i].ID+" ("+allowance.All(&inForce[i])+")")
	}
	entry, counts := r.newEntry("override revoke", strings.Join(texts, " ")), &Counts{Matched: int64(len(ids))}
	_, err = r.change(ctx, observer, &change{entry: entry, Counts: counts, consent: consent,
		question: "Revoke " + output.Count(len(ids), "override"), make: func() error {
			var failures []error
			for _, id := range ids {
				failures = append(failures, r.within(ctx, func(ctx context.Context) error {
					ended, found, err := table.RevokeOverride(ctx, id)
					if err == nil && found { // one that ended by itself meanwhile is what was wanted
						revoked = append(revoked, ended)
						record(entry, &ended)
					}
					return err
				}))
			}
			counts.Changed = int64(len(revoked))
			err := errors.Join(failures...)
			if err != nil && counts.Changed > 0 {
				err = outcome.Partly(err)
			}
			return err
		}})
	return revoked, err
}

// inForce returns the overrides of these IDs, or an [ErrNoOverride] for the first ID that none in force has.
func (r *Runner) inForce(ctx context.Context, ids []string) (found []store.Override, err error) {
	overrides, err := r.Overrides(ctx)
	if err != nil && !errors.Is(err, store.ErrForeign) {
		return nil, err
	}
	for _, id := range ids {
		at := slices.IndexFunc(overrides, func(o store.Override) bool { return o.ID == id })
		if at < 0 {
			return nil, fmt.Errorf("override %q is %w: it has ended, was revoked, or never was; see `limitctl "+
				"override list`", id,
				ErrNoOverride)
		}
		found = append(found, overrides[at])
	}
	return found, nil
}

// Overrides returns the overrides that are in force. With a [store.ErrForeign], which names
// one that cannot be read, it returns the others.
func (r *Runner) Overrides(ctx context.Context) ([]store.Override, error) {
	table, err := r.overrideTable()
	if err != nil {
		return nil, err
	}
	ctx, cancel := store.BudgetContext(ctx, r.Timeout)
	defer cancel()
	overrides, _, err := table.Overrides(ctx)
	return overrides, err
}

func (r *Runner) overrideTable() (*admin.Tables, error) {
	table, has := admin.TablesOf(r.Store)
	if !has {
		return nil, store.Invalidf("this store keeps no overrides")
	}
	return table, nil
}

// ErrNoOverride is the error of an ID that no override in force has.
var ErrNoOverride = errors.New("not in force")

package operation

import (
	"context"
	"errors"

	"github.com/limitctl/limitctl/cmd/internal/backup"
	"github.com/limitctl/limitctl/cmd/internal/outcome"
	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// MigratePlan says which usage of another limiter is carried over, and into which limits.
type MigratePlan struct {
	// From has the limits of the other limiter, the old ones. It is only read.
	From admin.Keyspace
	// Selection is which of them.
	Selection Selection
	// Into returns the requests whose limits are to have the usage of an old one: one, or those
	// of a policy. A [store.ErrInvalid] says why there are none.
	Into func(*admin.Entry) ([]store.Request, error)
	// Text is what is carried over, in words, for the audit log and the backup.
	Text string
	// KeepGoing carries over what was found if not all old keys could be looked at, also where
	// nobody is asked. Without it that is an error then, and nothing is changed.
	KeepGoing bool
	// DryRun finds out what would be changed and changes nothing.
	DryRun bool
	// Backup is where the new keys are kept as they were; nil for nowhere.
	Backup  *BackupPlan
	Consent Consent
}

// MigrateResult is what a migration came to.
type MigrateResult struct {
	// Migrated is the outcome of the old limits, in a dry run the expected one.
	Migrated
	// Unsure are keys that may be of a limiter, and were left out. Unreadable are those whose values
	// the layout cannot read.
	Unsure     Unsure
	Unreadable int64
	// Unknown is the most old limits that may or may not have been carried over.
	Unknown int64
	// Incomplete is why not all old keys could be looked at, nil if all were.
	Incomplete error
	// Backup is the path of the way back, empty if nothing was changed or without a backup.
	Backup string
}

// Missing names the parts of the store whose keys could not be looked at, as far as that is
// known: the addresses of masters.
func (r *MigrateResult) Missing() []string { return missingParts(r.Incomplete) }

// Migrate carries the usage of another limiter over into limits of the runner's store, so that
// in each of them at least as much is in use as the other limiter counted when its keys were
// read, up to what the limit holds. It never lowers what is in use, so that it can be run
// again, and while others take units. The old keys are left alone. Without a result nothing
// was changed.
//
// It reads the old keys twice. The first time it only counts, so that the question can say what will
// change. The second time it charges each batch right after reading it, because the other limiter may
// have counted since.
func (r *Runner) Migrate(ctx context.Context, plan *MigratePlan, observer Observer) (*MigrateResult, error) {
	overrides, err := r.overridesInForce(ctx)
	if err != nil {
		return nil, outcome.WithProgress(err, "nothing was changed")
	}
	look := &migration{runner: r, plan: plan, overrides: overrides}
	found, scanErr := look.run(ctx, observer)
	if scanErr != nil && (ctx.Err() != nil || look.failed) {
		return nil, nothingChanged(&found, scanErr)
	}
	result := &MigrateResult{Migrated: look.Migrated, Unsure: found.Unsure, Unreadable: int64(found.Foreign.Count()),
		Incomplete: found.WithProgress(scanErr)}
	if scanErr != nil && result.Matched == 0 {
		return result, nothingChanged(&found, scanErr)
	}
	observer.Selected(&Selected{Count: int(result.Matched), Incomplete: result.Incomplete,
		Migration: &result.Migrated})
	if plan.DryRun || result.Raised == 0 {
		return result, result.err(&found, scanErr, nil)
	}
	if scanErr != nil && !plan.KeepGoing && plan.Consent.Covers(r.Place.Access) {
		return result, &BrokenScanError{nothingChanged(&found, scanErr)}
	}
	return r.migrate(ctx, plan, observer, overrides, result)
}

// migrate asks and carries over. result is what was found out before.
func (r *Runner) migrate(ctx context.Context, plan *MigratePlan, observer Observer, overrides *store.OverrideList,
	result *MigrateResult) (*MigrateResult, error) {
	entry := r.newEntry("migrate", plan.Text)
	entry.Matched = result.Matched
	m := &migration{runner: r, plan: plan, overrides: overrides, writes: true}
	var err error
	if m.backup, err = r.createBackup(ctx, plan.Backup, entry, backup.Header{Adjusts: true}); err != nil {
		return nil, err
	}
	defer m.backup.discard() // unless it is kept
	c := &change{entry: entry, consent: plan.Consent, question: result.question(result.Incomplete), backup: m.backup}
	c.make = func() error {
		found, err := m.run(ctx, &stepping{observer, Migrating})
		planned := result.Matched
		*result = MigrateResult{Migrated: m.Migrated, Unsure: found.Unsure, Unreadable: int64(found.Foreign.Count()), Unknown: m.unknown}
		if m.backup != nil && (m.Raised > 0 || m.unknown > 0) {
			result.Backup, err = c.keepBackup(err, m.Raised+m.unknown, observer)
		}
		entry.Matched, entry.Changed, entry.Unknown = m.Matched, m.Raised, m.unknown
		if err != nil && !m.failed && ctx.Err() == nil {
			result.Incomplete = found.WithProgress(err)
			return result.err(&found, err, nil)
		}
		return result.err(&found, nil, result.withProgress(err, planned))
	}
	made, err := r.change(ctx, observer, c)
	if !made {
		return nil, err
	}
	return result, err
}

// stepping is an observer to which all steps are one.
type stepping struct {
	Observer
	step Step
}

func (s *stepping) Begin(Step) Progress { return s.Observer.Begin(s.step) }

// withProgress says of the error that ended a migration how much of it was done.
func (r *MigrateResult) withProgress(err error, planned int64) error {
	if err == nil {
		return nil
	}
	return outcome.WithProgress(err, "%d of %s %s", r.Carried(), output.Plural(int(max(planned, r.Matched)), "old limit"),
		certainly("carried over", err))
}

// err is the error that a migration ends with: that of the store, else of the scan, else that some
// usage could not be carried over.
func (r *MigrateResult) err(found *Found, scanErr, changeErr error) error {
	err := changeErr
	switch {
	case changeErr != nil:
	case scanErr != nil:
		err = found.WithProgress(scanErr)
	default:
		if err = found.Foreign.Err(r.Carried() > 0); r.Left() > 0 {
			err = errors.Join(err, &NotCarriedError{r.Migrated})
		}
	}
	if err != nil && r.Carried() > 0 {
		return outcome.Partly(err)
	}
	return err
}

package operation

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/limitctl/limitctl/cmd/internal/backup"
	"github.com/limitctl/limitctl/cmd/internal/outcome"
	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter"
)

// ResetPlan says what to reset and how.
type ResetPlan struct {
	Selection Selection
	// Text is what is reset, in words, for the trail and the backup.
	Text string
	// Remaining, if set, is how many units to leave of each limit, instead of deleting
	// the keys.
	Remaining *int64
	// DryRun finds out what would be changed and changes nothing.
	DryRun bool
	// Backup is where the keys are kept as they were; nil for nowhere.
	Backup  *BackupPlan
	Consent Consent
}

// ResetResult is what a reset came to.
type ResetResult struct {
	// Matched is how many keys were selected.
	Matched int64
	// Changed is how many of them were deleted or adjusted for sure.
	Changed int64
	// Undo is the way back, nil if nothing was changed or without a backup.
	Undo *Undo
}

// Reset finds the selected keys, shows them, asks, and deletes or adjusts them. Without a
// result nothing was changed.
func (r *Runner) Reset(ctx context.Context, plan *ResetPlan, observer Observer) (*ResetResult, error) {
	entry := r.newEntry("reset", plan.Text)
	targets := &targets{remaining: plan.Remaining, dryRun: plan.DryRun}
	if plan.Backup != nil && !plan.DryRun {
		var err error
		of := r.identify(ctx)
		if targets.backup, err = r.createBackup(plan.Backup, entry, plan.Remaining != nil, &of); err != nil {
			return nil, err
		}
		defer targets.backup.discard() // unless it is kept
	}
	selection := plan.Selection
	selection.Query.Records = targets.backup != nil
	found, scanErr := Scan(ctx, r.Store, &selection, observer, targets.add)
	if scanErr != nil && (targets.count == 0 || ctx.Err() != nil || targets.failed) {
		return nil, nothingChanged(&found, scanErr)
	}
	result := &ResetResult{Matched: found.Matched}
	observer.Selected(targets.selected(found.WithProgress(scanErr)))
	if plan.DryRun || targets.count == 0 {
		return result, resetError(&found, scanErr, nil)
	}
	question := "Delete " + output.Plural(targets.count, "key")
	if plan.Remaining != nil {
		question = fmt.Sprintf("Leave %d remaining of %s", *plan.Remaining, output.Plural(targets.count, "key"))
	}
	entry.Matched = found.Matched
	c := &change{entry: entry, consent: plan.Consent, question: question}
	c.make = func() error {
		if targets.backup != nil {
			if err := targets.backup.setStoreID(c.storeID); err != nil {
				entry.Backup = "" // nothing was changed
				return err
			}
		}
		done, err := r.resetTargets(ctx, observer, targets)
		found.Foreign.merge(&done.foreign)
		entry.Backup = "" // unless it is kept
		if targets.backup != nil && done.any(err) {
			err = targets.backup.keep(err)
			result.Undo = &Undo{Backup: targets.backup.path, Replace: plan.Remaining != nil}
			entry.Backup = result.Undo.Backup
			observer.Undoable(*result.Undo)
		}
		result.Changed = done.keys
		entry.Changed, entry.Unknown = done.keys, done.unknown
		return resetError(&found, scanErr, done.withProgress(err, targets.count))
	}
	made, err := r.change(ctx, observer, c)
	if !made {
		return nil, err
	}
	return result, err
}

// nothingChanged says of the error of a scan that nothing was done after it.
func nothingChanged(found *Found, err error) error {
	if found.Looked == 0 {
		return outcome.WithProgress(err, "nothing was changed")
	}
	return outcome.WithProgress(err, "%d of about %d keys looked at, nothing was changed", found.Looked, found.Total)
}

// resetError is the error that a reset ends with: that of the change, else of the scan
// before it, else of the foreign values it met.
func resetError(found *Found, scanErr, changeErr error) error {
	switch {
	case changeErr != nil:
		return changeErr
	case scanErr != nil:
		return outcome.Partly(found.WithProgress(scanErr))
	}
	return found.Foreign.Err(found.Matched > 0)
}

// resetDone is how far the change of a reset has come.
type resetDone struct {
	asked   bool  // the store was asked to change some keys
	keys    int64 // how many are changed for sure
	unknown int64 // how many more may be: the store did not answer
	foreign Foreign
}

// any reports whether something may be changed after the change ended with err. Nothing
// is if the store was never asked or could not be reached.
func (d *resetDone) any(err error) bool {
	neverReached := limiter.IsAway(err) && !errors.Is(err, limiter.ErrOutcomeUnknown)
	return d.keys > 0 || d.asked && !neverReached
}

// failed notes the errors of a batch, of which the store has not said what became of so many
// keys. It returns those that end the change.
func (d *resetDone) failed(err error, untold int) error {
	known := d.foreign.Count()
	err = d.foreign.take(err)
	if errors.Is(err, limiter.ErrOutcomeUnknown) {
		d.unknown += int64(untold - (d.foreign.Count() - known))
	}
	return err
}

// withProgress says of the error that ended the change how much of it was done.
func (d *resetDone) withProgress(err error, count int) error {
	if err == nil {
		return nil
	}
	done := "done"
	if errors.Is(err, limiter.ErrOutcomeUnknown) {
		done = "known to be done"
	}
	err = outcome.WithProgress(err, "%d of %s %s", d.keys, output.Plural(count, "key"), done)
	if d.keys > 0 {
		err = outcome.Partly(err)
	}
	return err
}

// keysPerBatch is how many keys are changed between two looks at whether the operation was
// interrupted. A batch that has begun is finished, so that the count is right.
const keysPerBatch = 500

// resetTargets deletes or adjusts the targets, a batch at a time.
func (r *Runner) resetTargets(ctx context.Context, observer Observer, t *targets) (done resetDone, err error) {
	progress := observer.Begin(Resetting)
	defer progress.Close()
	tried := 0
	err = t.each(keysPerBatch, func(batch backup.Batch) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		done.asked = true
		if err := r.resetBatch(ctx, t, batch, &done); err != nil {
			return err
		}
		tried += len(batch.Records)
		progress.Set(int64(tried), int64(t.count), 0)
		return nil
	})
	return done, err
}

// resetBatch deletes or adjusts a batch, also if the operation is interrupted meanwhile.
func (r *Runner) resetBatch(ctx context.Context, t *targets, batch backup.Batch, done *resetDone) error {
	ctx, cancel := limiter.BudgetContext(context.WithoutCancel(ctx), r.Timeout)
	defer cancel()
	if t.remaining != nil {
		adjusted, err := adjust(ctx, r.Store, batch, *t.remaining)
		done.keys += int64(adjusted)
		return done.failed(err, len(batch.Records)-adjusted)
	}
	deleted, late, err := r.Store.Delete(ctx, batch.Records...)
	done.keys += int64(deleted)
	if t.backup != nil {
		// A record that was damaged since the scan cannot be brought back, and in the
		// backup it would be one more damaged line. The backup keeps what it was before.
		late = slices.DeleteFunc(late, func(r limiter.Record) bool { return r.Check() != nil })
		if err := t.backup.amend(late); err != nil {
			return err
		}
	}
	return done.failed(err, len(batch.Records)-deleted)
}

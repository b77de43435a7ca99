package operation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/limitctl/limitctl/internal/backup"
	"github.com/limitctl/limitctl/internal/outcome"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// ResetPlan says what to reset and how.
type ResetPlan struct {
	Selection Selection
	// Text is what is reset, in words, for the audit log and the backup.
	Text string
	// Remaining, if set, is how many units to leave of each limit, instead of deleting the keys.
	Remaining *Remaining
	// DryRun finds out what would be changed and changes nothing.
	DryRun bool
	// Backup is where the keys are kept as they were; nil for nowhere.
	Backup  *BackupPlan
	Consent Consent
}

// ResetResult is what a reset came to, or before it and in a dry run would.
type ResetResult struct {
	Counts
	// Damaged is how many of the keys are damaged records, which no backup keeps.
	Damaged int64
	// Remaining is what an adjustment leaves, nil if the keys are deleted. Effect is what it has done for sure, or
	// would do.
	Remaining *Remaining
	Effect    Effect
	// Sample is the first few keys. Limits is how all divide into limits, the most first, so that one sees at once if a
	// selection goes too far.
	Sample []admin.Entry
	Limits []Share
	// Values are the keys by the value of the attribute By, in which the pattern is open.
	By     string
	Values []Share
	// Layouts are those of other limiters whose keys were selected, by name, and Unsure the keys
	// that look like one's and were left out.
	Layouts []string
	Unsure  Unsure
	// Backup is the path of the way back, empty if no key is known to be changed, or may be, or without a backup.
	Backup string
}

// Reset finds the selected keys, shows them, asks, and deletes or adjusts them. Without a result nothing was changed.
func (r *Runner) Reset(ctx context.Context, plan *ResetPlan, observer Observer) (*ResetResult, error) {
	if plan.Remaining != nil && r.Place.Layout != "" { // a read-only store refuses later
		return nil, store.Invalidf("--to-remaining: limitctl only deletes keys of other limiters")
	}
	entry := r.newEntry("reset", plan.Text)
	var err error
	t := &targets{dryRun: plan.DryRun}
	t.Remaining, t.By = plan.Remaining, openIn(plan.Selection.Query.Subjects)
	if !plan.DryRun {
		header := backup.Header{Adjusts: plan.Remaining != nil, Marked: true}
		if t.backup, err = r.createBackup(ctx, plan.Backup, entry, header); err != nil {
			return nil, err
		}
		defer t.backup.discard() // unless it is kept
	}
	selection := plan.Selection
	selection.Names = nil // all keys of a subject are reset, also those under names that nobody knows
	selection.Query.Records = t.backup != nil
	selection.Damaged = plan.Remaining == nil
	found, err := Scan(ctx, r.Store, &selection, observer, t.add)
	if err != nil {
		return nil, nothingChanged(&found, err)
	}
	t.foreign, t.Unsure = found.Foreign, found.Unsure
	t.Limits, t.Values = counted(t.limits), counted(t.values)
	observer.Selected(&t.ResetResult)
	if plan.DryRun || t.Matched == 0 {
		return &t.ResetResult, t.err(nil)
	}
	if len(t.Layouts) > 0 { // those of all that were looked for
		entry.Layout = strings.Join(t.Layouts, ",")
	}
	question := t.question()
	t.Effect = Effect{} // that was a forecast
	made, err := r.change(ctx, observer, &change{entry: entry, Counts: &t.Counts, consent: plan.Consent,
		question: question,
		backup:   t.backup, make: func() error {
			err := r.resetTargets(ctx, observer, t)
			if t.backup != nil && t.mayHaveChanged(err) && t.Matched > t.Damaged {
				// It is kept also if no key is known to be changed, since a store can refuse in the middle of a call.
				if err = t.backup.keep(err); t.Changed+t.Unknown > 0 {
					t.Backup = t.backup.path
				}
			}
			return t.err(t.withProgress(err))
		}})
	if !made {
		return nil, err
	}
	return &t.ResetResult, err
}

// err is the error that a reset ends with: that of the change, else of the foreign values it met.
func (t *targets) err(changeErr error) error {
	if changeErr != nil {
		return changeErr
	}
	return t.foreign.Err(t.Matched > 0)
}

// mayHaveChanged reports whether something may be changed after the change ended with err. Nothing
// is if no call was made, or the store could not be reached, or it has said so.
func (t *targets) mayHaveChanged(err error) bool {
	neverReached := store.IsAway(err) && !errors.Is(err, store.ErrOutcomeUnknown)
	return t.Changed > 0 || err != nil && t.asked && !neverReached
}

// take counts what the errors of a batch say, in which so many keys have no reported outcome. It returns the errors
// that end the change.
func (t *targets) take(err error, unreported int) error {
	known := t.foreign.Count()
	err = t.foreign.take(err)
	foreign := t.foreign.Count() - known
	t.Failed += int64(foreign)
	if errors.Is(err, store.ErrOutcomeUnknown) {
		t.Unknown += int64(unreported - foreign)
	}
	return err
}

// withProgress says of the error that ended the change how much of it was done.
func (t *targets) withProgress(err error) error {
	if err == nil {
		return nil
	}
	known := t.Changed + t.Effect.Stay
	next := goOn(err, known, t.Remaining != nil)
	if next != "" && t.Backup != "" { // a later run keeps what the earlier one has left
		next += "; to undo all, undo each run, the last one first"
	}
	err = outcome.WithProgress(err, "%d of %s %s%s", known, output.Count(int(t.Matched), "key"),
		certainly("done", err), next)
	if t.Changed > 0 {
		err = outcome.Partly(err)
	}
	return err
}

// resetTargets deletes or adjusts the targets, a batch at a time.
func (r *Runner) resetTargets(ctx context.Context, observer Observer, t *targets) error {
	progress := observer.Begin("resetting", "")
	defer progress.Close()
	tried := int64(0)
	var stopped error
	err := t.each(keysPerBatch, func(batch backup.Batch) error {
		if stopped == nil {
			stopped = ctx.Err()
		}
		if stopped != nil {
			return t.leave(batch, stopped)
		}
		if t.backup != nil && batch.Last > 0 { // else it is of damaged records, which the backup does not keep
			if err := t.backup.begin(batch.Last); err != nil {
				return err
			}
		}
		t.asked = true
		if stopped = r.resetBatch(ctx, t, batch); stopped == nil {
			tried += int64(len(batch.Records))
			progress.Set(tried, t.Matched, 0)
		}
		return nil
	})
	if stopped != nil && (err == nil || errors.Is(err, stopped)) {
		return stopped
	}
	if left := t.Matched - tried; stopped == nil && err == nil && left > 0 { // their records cannot be read again
		err = fmt.Errorf("%s could not be kept in the backup: left unchanged", output.Count(int(left), "key"))
	}
	return errors.Join(stopped, err)
}

// resetBatch deletes or adjusts a batch.
func (r *Runner) resetBatch(ctx context.Context, t *targets, batch backup.Batch) error {
	return r.within(ctx, func(ctx context.Context) error {
		if t.Remaining != nil {
			return r.adjustBatch(ctx, t, batch)
		}
		deleted, late, err := r.Store.Delete(ctx, batch.Records...)
		t.Changed += int64(deleted)
		if t.backup != nil {
			// A record that was damaged since the scan cannot be brought back, and in the backup it would be one more
			// damaged line. The backup keeps what it was before.
			late = slices.DeleteFunc(late, func(r admin.Record) bool { return r.Check() != nil })
			if err := t.backup.amend(late); err != nil {
				return err
			}
		}
		return t.take(err, len(batch.Records)-deleted)
	})
}

// adjustBatch adjusts the keys of a batch, and notes the outcomes.
func (r *Runner) adjustBatch(ctx context.Context, t *targets, batch backup.Batch) error {
	adjustments := make([]admin.Adjustment, len(batch.Records))
	for i := range batch.Records {
		adjustments[i] = t.Remaining.adjustment(batch.Records[i].Key, batch.Limits[i])
		if t.backup != nil {
			adjustments[i].Kept = batch.Records[i].Value
		}
	}
	results, err := r.Store.Adjust(ctx, adjustments...) // none after some errors
	left := len(adjustments)
	var late, same []admin.Record
	for i := range results {
		a := &results[i]
		if !a.Done {
			continue
		}
		left--
		t.Effect.count(a.Before, a.After)
		switch {
		case a.Before == a.After:
			same = append(same, batch.Records[i])
		case a.Record.Holds() && a.Record.Check() == nil:
			late = append(late, a.Record)
		}
	}
	t.Changed = t.Effect.Gain + t.Effect.Lose
	if t.backup != nil {
		if err := errors.Join(t.backup.amend(late), t.backup.exclude(same)); err != nil {
			return err
		}
	}
	return t.take(err, left)
}

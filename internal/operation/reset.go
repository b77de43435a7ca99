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
	// Remaining, if set, is how many units to leave of each limit, instead of deleting
	// the keys.
	Remaining *Remaining
	// KeepGoing changes the keys that were found if not all could be looked at, also where
	// nobody is asked. Without it that is an error then, and nothing is changed.
	KeepGoing bool
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
	// Damaged is how many of them are damaged records, which no backup keeps.
	Damaged int64
	// Changed is how many of them were deleted, or adjusted to something else, for sure.
	Changed int64
	// Gone is how many of them were not there any more when they were to be deleted, as far as
	// that is known: they had lapsed, or somebody else has deleted them.
	Gone int64
	// Effect is what an adjustment has done for sure, or in a dry run would do.
	Effect Effect
	// Unknown is the most keys that have no known outcome.
	Unknown int64
	// Incomplete is why not all keys could be looked at, nil if all were.
	Incomplete error
	// Layouts are those of other limiters whose keys were selected, by name, and Unsure the keys
	// that look like one's and were left out.
	Layouts []string
	Unsure  Unsure
	// Backup is the path of the way back, empty if no key is known to be changed, or may be, or without a backup.
	Backup string
}

// Missing names the parts of the store whose keys could not be looked at, as far as that is
// known: the addresses of masters.
func (r *ResetResult) Missing() []string { return missingParts(r.Incomplete) }

// Reset finds the selected keys, shows them, asks, and deletes or adjusts them. Without a
// result nothing was changed.
func (r *Runner) Reset(ctx context.Context, plan *ResetPlan, observer Observer) (*ResetResult, error) {
	adjuster, canAdjust := store.As[admin.Adjuster](r.Store)
	if plan.Remaining != nil && (!canAdjust || r.Place.Layout != "") { // a read-only store refuses later
		return nil, store.Invalidf("--to-remaining: limitctl only deletes keys of other limiters")
	}
	entry := r.newEntry("reset", plan.Text)
	remaining, err := r.withOverrides(ctx, plan.Remaining)
	if err != nil {
		return nil, outcome.WithProgress(err, "nothing was changed")
	}
	targets := &targets{remaining: remaining, adjuster: adjuster, dryRun: plan.DryRun}
	if !plan.DryRun {
		header := backup.Header{Adjusts: plan.Remaining != nil, Marked: true}
		if targets.backup, err = r.createBackup(ctx, plan.Backup, entry, header); err != nil {
			return nil, err
		}
		defer targets.backup.discard() // unless it is kept
	}
	selection := plan.Selection
	selection.Names = nil // all keys of a subject are reset, also those under names that nobody knows
	selection.Query.Records = targets.backup != nil
	selection.Damaged = plan.Remaining == nil && !selection.Foreign
	found, scanErr := Scan(ctx, r.Store, &selection, observer, targets.add)
	found.Matched = int64(targets.count)
	if scanErr != nil && (ctx.Err() != nil || targets.failed) {
		return nil, nothingChanged(&found, scanErr)
	}
	result := &ResetResult{Matched: found.Matched, Incomplete: found.WithProgress(scanErr), Layouts: targets.layouts, Unsure: found.Unsure,
		Damaged: targets.damaged}
	if scanErr != nil && targets.count == 0 {
		return result, nothingChanged(&found, scanErr)
	}
	observer.Selected(targets.selected(result.Incomplete))
	if plan.DryRun || targets.count == 0 {
		result.Effect = targets.effect
		return result, resetError(&found, scanErr, nil)
	}
	if scanErr != nil && !plan.KeepGoing && plan.Consent.Covers(r.Place.Access) {
		return result, &BrokenScanError{nothingChanged(&found, scanErr)}
	}
	entry.Matched = found.Matched
	if len(targets.layouts) > 0 { // those of all that were looked for
		entry.Layout = strings.Join(targets.layouts, ",")
	}
	c := &change{entry: entry, consent: plan.Consent, question: targets.question(scanErr), backup: targets.backup}
	c.make = func() error {
		done, err := r.resetTargets(ctx, observer, targets)
		found.Foreign.merge(&done.foreign)
		if targets.backup != nil && done.any(err) && int64(targets.count) > targets.damaged {
			result.Backup, err = c.keepBackup(err, done.keys+done.unknown, observer)
		}
		result.Changed, result.Effect, result.Unknown = done.keys, done.effect, done.unknown
		entry.Changed, entry.Unknown = done.keys, done.unknown
		if err == nil && plan.Remaining == nil {
			result.Gone = int64(targets.count-done.foreign.Count()) - done.keys
		}
		return resetError(&found, scanErr, done.withProgress(err, targets))
	}
	made, err := r.change(ctx, observer, c)
	if !made {
		return nil, err
	}
	return result, err
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
	asked   bool   // the store was asked to change some keys
	keys    int64  // how many are changed for sure
	effect  Effect // of an adjustment
	unknown int64  // the most keys that have no known outcome
	foreign Foreign
}

// any reports whether something may be changed after the change ended with err. Nothing
// is if no call was made, or the store could not be reached, or it has said so.
func (d *resetDone) any(err error) bool {
	neverReached := store.IsAway(err) && !errors.Is(err, store.ErrOutcomeUnknown)
	return d.keys > 0 || err != nil && d.asked && !neverReached
}

// failed notes the errors of a batch in which so many keys have no reported outcome. unsure: an earlier try
// may have changed them. It returns those that end the change.
func (d *resetDone) failed(err error, unreported int, unsure bool) error {
	known := d.foreign.Count()
	err = d.foreign.take(err)
	if errors.Is(err, store.ErrOutcomeUnknown) || unsure && err != nil {
		d.unknown += int64(unreported - (d.foreign.Count() - known))
	}
	return err
}

// withProgress says of the error that ended the change how much of it was done.
func (d *resetDone) withProgress(err error, t *targets) error {
	if err == nil {
		return nil
	}
	second := secondReset
	if t.remaining != nil {
		second = secondAdjust
	}
	known := d.keys + d.effect.Stay
	err = outcome.WithProgress(err, "%d of %s %s%s", known, output.Plural(t.count, "key"), certainly("done", err),
		goOn(err, known, second))
	if d.keys > 0 {
		err = outcome.Partly(err)
	}
	return err
}

// resetTargets deletes or adjusts the targets, a batch at a time.
func (r *Runner) resetTargets(ctx context.Context, observer Observer, t *targets) (done resetDone, err error) {
	progress := observer.Begin(Resetting)
	defer progress.Close()
	tried := 0
	var stopped error
	err = t.each(keysPerBatch, func(batch backup.Batch) error {
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
		done.asked = true
		if stopped = r.resetBatch(ctx, t, batch, &done); stopped != nil {
			return nil
		}
		tried += len(batch.Records)
		progress.Set(int64(tried), int64(t.count), 0)
		return nil
	})
	if stopped != nil && (err == nil || errors.Is(err, stopped)) {
		return done, stopped
	}
	if left := t.count - tried; stopped == nil && err == nil && left > 0 { // their records cannot be read again
		err = fmt.Errorf("%s could not be kept in the backup: left unchanged", output.Plural(left, "key"))
	}
	return done, errors.Join(stopped, err)
}

// resetBatch deletes or adjusts a batch, and tries again if the store does not answer.
func (r *Runner) resetBatch(ctx context.Context, t *targets, batch backup.Batch, done *resetDone) error {
	if t.remaining != nil {
		return r.adjustBatch(ctx, t, batch, done)
	}
	before, reported := *done, 0 // how many of the batch the store has reported as deleted
	return r.retry(ctx, new(true), func(ctx context.Context, unsure bool) error {
		*done = before
		first := reported == 0 && !unsure
		deleted, late, err := r.Store.Delete(ctx, batch.Records...)
		reported += deleted
		done.keys += int64(reported)
		if t.backup != nil && first {
			// A record that was damaged since the scan cannot be brought back, and in the
			// backup it would be one more damaged line. The backup keeps what it was before. It
			// also does if the key may have been deleted and used again since: the little that
			// was used in between must not take the place of all that was used before.
			late = slices.DeleteFunc(late, func(r admin.Record) bool { return r.Check() != nil })
			if err := t.backup.amend(late); err != nil {
				return err
			}
		}
		err = done.failed(err, len(batch.Records)-reported, unsure)
		if err == nil && unsure { // what is gone was deleted by the try that was not answered
			done.keys = before.keys + int64(len(batch.Records)-(done.foreign.Count()-before.foreign.Count()))
		}
		return err
	})
}

// adjustBatch adjusts the keys of a batch, and notes the outcomes. It retries those whose outcome the
// store does not report.
func (r *Runner) adjustBatch(ctx context.Context, t *targets, batch backup.Batch, done *resetDone) error {
	adjustments := make([]admin.Adjustment, len(batch.Records))
	for i := range batch.Records {
		adjustments[i] = t.remaining.adjustment(batch.Records[i].Key, batch.Limits[i])
		if t.backup != nil {
			adjustments[i].Kept = batch.Records[i].Value
		}
	}
	records, foreign, unknown := batch.Records, done.foreign, done.unknown
	return r.retry(ctx, new(true), func(ctx context.Context, unsure bool) error {
		done.foreign, done.unknown = foreign, unknown
		results, err := t.adjuster.Adjust(ctx, adjustments...)
		results = append(results, make([]admin.Adjusted, max(0, len(adjustments)-len(results)))...) // none after some errors
		var late, same, left []admin.Record
		var again []admin.Adjustment
		for i := range results {
			a := &results[i]
			if !a.Done {
				left, again = append(left, records[i]), append(again, adjustments[i])
				continue
			}
			before := a.Before
			if unsure { // it may be as an earlier try has left it, which was not answered
				before = r.usedBefore(&records[i], before)
			}
			done.effect.count(before, a.After)
			switch {
			case unsure:
			case a.Before == a.After:
				same = append(same, records[i])
			case a.Record.Holds() && a.Record.Check() == nil:
				late = append(late, a.Record)
			}
		}
		records, adjustments = left, again
		done.keys = done.effect.changed()
		if t.backup != nil {
			if err := errors.Join(t.backup.amend(late), t.backup.exclude(same)); err != nil {
				return err
			}
		}
		return done.failed(err, len(left), unsure)
	})
}

// usedBefore is how much was in use of a key when its record was kept, else so much as is said.
func (r *Runner) usedBefore(record *admin.Record, otherwise int64) int64 {
	var state store.State
	if len(record.Value) == 0 || state.DecodeRecord(record.Value) != nil {
		return otherwise
	}
	return state.Used(store.InstantOf(r.Now()))
}

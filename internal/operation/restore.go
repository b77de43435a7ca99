package operation

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/limitctl/limitctl/internal/backup"
	"github.com/limitctl/limitctl/internal/files"
	"github.com/limitctl/limitctl/internal/outcome"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Backup is a backup that was opened and read through, and can be restored.
type Backup struct {
	*backup.Contents
	// Path is the path that it was opened by.
	Path string
	file files.File
}

// OpenBackup opens a backup of keys with a prefix and reads it through. The caller closes
// it. A backup of another prefix is a [PrefixError], unless it is of other limiters' keys, which
// are under no prefix of ours.
func OpenBackup(f *Files, path, prefix string) (*Backup, error) {
	file, err := f.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("the backup %q cannot be read: %w; `limitctl undo --list` names those of this machine, and "+
			"`limitctl audit` the machine that has another", path, fs.ErrNotExist)
	}
	if err != nil {
		return nil, fmt.Errorf("the backup cannot be read: %w", err)
	}
	contents, err := backup.Check(file)
	switch {
	case err != nil:
		err = fmt.Errorf("%s: %w; nothing was restored", path, err)
	case contents.Records == 0 && contents.Damaged > 0:
		err = fmt.Errorf("%s holds no record that can be read: %w; nothing was restored", path, contents.Damage[0])
	case contents.Prefix != prefix && contents.Layout == "":
		err = &PrefixError{Path: path, Backup: contents.Prefix, InUse: prefix}
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return &Backup{Contents: contents, Path: path, file: file}, nil
}

// Close closes the file of the backup.
func (b *Backup) Close() error { return b.file.Close() }

// StoreKeys returns the first store keys that a restore would write, up to most, and how many there are. Of other limiters,
// subjects do not tell them: a file that was edited can name any.
func (b *Backup) StoreKeys(most int) (first []string, count int, err error) {
	own := admin.OwnLayout(b.Prefix)
	if _, err := b.file.Seek(0, 0); err != nil {
		return nil, 0, fmt.Errorf("the backup cannot be read again: %w", err)
	}
	err = b.Each(b.file, keysPerBatch, func(batch backup.Batch) error {
		for i := range batch.Records {
			r := &batch.Records[i]
			storeKeys := []string{own.StoreKey(r.Key)}
			if len(r.Members) > 0 {
				storeKeys = nil
			}
			for j := range r.Members {
				storeKeys = append(storeKeys, r.Members[j].StoreKey)
			}
			count += len(storeKeys)
			first = append(first, storeKeys[:max(0, min(len(storeKeys), most-len(first)))]...)
		}
		return nil
	})
	return first, count, err
}

// PrefixError says that the keys of a backup have another prefix than those of the store.
type PrefixError struct {
	Path          string // of the backup
	Backup, InUse string // the two prefixes
}

// Error names the backup and both prefixes.
func (e *PrefixError) Error() string {
	return fmt.Sprintf("%s holds keys of the prefix %q, and the prefix here is %q", e.Path, e.Backup, e.InUse)
}

// DamageError says how many lines of the backup could not be read and are left out; nil
// if there are none. It is an [outcome.ErrPartly].
func (b *Backup) DamageError() error {
	if b.Damaged == 0 {
		return nil
	}
	return outcome.Partly(fmt.Errorf("%s of the backup damaged: what they held was left out", output.Plural(b.Damaged, "line")))
}

// RestorePlan says what to restore and how. The keys get the expiry they had.
type RestorePlan struct {
	// Backup is what to restore. The caller closes it.
	Backup *Backup
	// Replace brings back keys that have been used since, over what they hold. A backup of keys that were left in use
	// replaces them in any case.
	Replace bool
	// IntoOther, if set, says why this is another store than that of the backup. It gets the backup all the same, also the
	// keys that the change of the backup had not reached.
	IntoOther error
	// Only, if set, says which keys are brought back.
	Only func(store.Key) bool
	// InUse, if set, gets each key that was left because it has been used since.
	InUse   func(store.Key)
	Consent Consent
}

// replaces reports whether keys that have been used since are overwritten.
func (p *RestorePlan) replaces() bool { return p.Replace || p.Backup.Adjusts }

// RestoreResult is the outcome of the records of a backup.
type RestoreResult struct {
	Restored int64
	Already  int64 // as the backup has them, before and now
	Lapsed   int64 // nothing of them would be in use by now
	InUse    int64 // used since, and left
	// Unreached is how many the change that made the backup had not reached when it ended. They are left as they are.
	Unreached int64
	// Failed is how many were left, since they are invalid in the backup or their keys hold what limitctl did not write.
	Failed int64
	// Unknown is how many have no known outcome, because the store did not answer.
	Unknown int64
	unfit   error // of the first few that are invalid
}

// Restore asks, and brings back what a backup holds. Without a result nothing was changed.
func (r *Runner) Restore(ctx context.Context, plan *RestorePlan, observer Observer) (*RestoreResult, error) {
	if plan.IntoOther == nil {
		if err := r.CheckOrigin(ctx, plan.Backup); err != nil {
			return nil, err
		}
	}
	entry := r.newEntry("undo", absolute(plan.Backup.Path))
	question := "Restore " + output.Plural(plan.Backup.Records, "key")
	if plan.IntoOther != nil {
		question = plan.IntoOther.Error() + ". " + question + " into it"
	}
	entry.Matched = int64(plan.Backup.Records)
	if layouts := plan.Backup.Layouts; len(layouts) > 0 {
		entry.Layout = strings.Join(layouts, ",")
	}
	result := &RestoreResult{}
	made, err := r.change(ctx, observer, &change{entry: entry, consent: plan.Consent, question: question, make: func() error {
		err := r.restoreRecords(ctx, plan, observer, result)
		entry.Changed = result.Restored
		if errors.Is(err, store.ErrOutcomeUnknown) {
			entry.Unknown = result.Unknown
		}
		if err = result.err(plan, err); err == nil {
			err = plan.Backup.DamageError()
		}
		return err
	}})
	if !made {
		return nil, err
	}
	return result, err
}

// restoreRecords brings back the records of a backup, a batch at a time, and counts the
// outcomes.
func (r *Runner) restoreRecords(ctx context.Context, plan *RestorePlan, observer Observer, result *RestoreResult) error {
	if _, err := plan.Backup.file.Seek(0, 0); err != nil {
		return fmt.Errorf("the backup cannot be read again: %w", err)
	}
	progress := observer.Begin(Restoring)
	defer progress.Close()
	return plan.Backup.Each(plan.Backup.file, keysPerBatch, func(batch backup.Batch) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		records := batch.Records
		if plan.Only != nil {
			records = slices.DeleteFunc(records, func(r admin.Record) bool { return !plan.Only(r.Key) })
		}
		if len(records) == 0 {
			return nil
		}
		if batch.Unreached && plan.IntoOther == nil { // what became of them since is not due to the change
			result.Unreached += int64(len(records))
			return nil
		}
		unused := slices.DeleteFunc(slices.Clone(records), func(r admin.Record) bool { return !backup.IsUnused(&r) })
		if err := r.restoreUnused(ctx, plan, unused, result); err != nil {
			return err
		}
		records = slices.DeleteFunc(records, func(r admin.Record) bool { return backup.IsUnused(&r) })
		if err := r.restoreBatch(ctx, plan, records, result); err != nil {
			return err
		}
		progress.Set(result.known(), int64(plan.Backup.Records), 0)
		return nil
	})
}

// restoreBatch brings back some records that hold usage. It retries those whose outcome the store does
// not report.
func (r *Runner) restoreBatch(ctx context.Context, plan *RestorePlan, records []admin.Record, result *RestoreResult) error {
	unknown := result.Unknown
	return r.retry(ctx, new(result.known() > 0), func(ctx context.Context, _ bool) error {
		result.Unknown = unknown
		outcomes, err := r.Store.Import(ctx, plan.replaces(), records...)
		var left []admin.Record
		for i := range records {
			if i >= len(outcomes) || outcomes[i] == admin.NotKnown {
				left = append(left, records[i])
				continue
			}
			result.count(outcomes[i])
			if outcomes[i] == admin.InUse && plan.InUse != nil {
				plan.InUse(records[i].Key)
			}
		}
		records = left
		if err = result.takeUnfit(err); err != nil {
			result.Unknown += int64(len(left))
		}
		return err
	})
}

// restoreUnused makes keys unused again that were so when the backup was made. Without replace
// those that are in use are left.
func (r *Runner) restoreUnused(ctx context.Context, plan *RestorePlan, records []admin.Record, result *RestoreResult) error {
	if len(records) == 0 {
		return nil
	}
	before, deleted := *result, 0
	keys := admin.KeysOf(records)
	reached := result.known() > 0
	return r.retry(ctx, &reached, func(ctx context.Context, _ bool) error {
		*result = before
		if plan.replaces() {
			now, _, err := r.Store.Delete(ctx, records...)
			deleted += now
			var foreign Foreign
			err = foreign.take(err)
			left := int64(len(records) - deleted - foreign.Count())
			result.Restored += int64(deleted)
			result.Failed += int64(foreign.Count())
			if err != nil {
				result.Unknown += left
				return err
			}
			result.Already += left
			return nil
		}
		result.Already += int64(len(keys))
		for e, err := range r.Store.Scan(ctx, admin.Query{Keys: keys}) {
			reached = reached || !store.IsAway(err)
			switch {
			case errors.Is(err, store.ErrForeign):
				result.Failed++
			case err != nil:
				return err
			default:
				result.InUse++
				if plan.InUse != nil {
					plan.InUse(e.Key)
				}
			}
			result.Already--
		}
		return nil
	})
}

func (r *RestoreResult) count(outcome admin.ImportOutcome) {
	switch outcome {
	case admin.Imported:
		r.Restored++
	case admin.AlreadyThere:
		r.Already++
	case admin.Lapsed:
		r.Lapsed++
	case admin.InUse:
		r.InUse++
	case admin.Foreign, admin.Unfit:
		r.Failed++
	case admin.NotKnown: // asked again, or counted by the caller
	}
}

// takeUnfit keeps the first errors of records that cannot be restored, and returns the other errors.
func (r *RestoreResult) takeUnfit(err error) error {
	joined, several := err.(interface{ Unwrap() []error })
	if unfit := (*admin.UnfitError)(nil); !several || !errors.As(err, &unfit) {
		return err
	}
	var unfit, others []error
	for _, err := range joined.Unwrap() {
		if of := (*admin.UnfitError)(nil); errors.As(err, &of) {
			unfit = append(unfit, fmt.Errorf("%w; it was left out", err))
		} else {
			others = append(others, err)
		}
	}
	if r.unfit == nil {
		r.unfit = errors.Join(unfit[:min(keptForeign, len(unfit))]...)
	}
	return errors.Join(others...)
}

// known is how many records have a known outcome.
func (r *RestoreResult) known() int64 {
	return r.Restored + r.Already + r.Lapsed + r.InUse + r.Unreached + r.Failed
}

// err is the error that a restore ends with: what ended it early, or that some records could not be restored.
func (r *RestoreResult) err(plan *RestorePlan, err error) error {
	switch {
	case err != nil:
		second := secondRestore
		if plan.replaces() {
			second = secondReplace
		}
		err = outcome.WithProgress(err, "%d of %s %s%s", r.Restored+r.Already, output.Plural(plan.Backup.Records, "record"),
			certainly("restored", err), goOn(err, r.known(), second))
		if r.known() > 0 {
			return outcome.Partly(err)
		}
		return err
	case r.Failed > 0:
		return outcome.Partly(errors.Join(r.unfit,
			fmt.Errorf("%s not fit to be restored: left unchanged", output.Plural(int(r.Failed), "key"))))
	case r.InUse > 0:
		return outcome.Partly(&UsedSinceError{r.InUse})
	}
	return nil
}

// UsedSinceError says how many keys a restore left because they have been used since.
type UsedSinceError struct{ Keys int64 }

// Error says how many keys were left.
func (e *UsedSinceError) Error() string {
	return output.Plural(int(e.Keys), "key") + " used since: left unchanged"
}

// identity says which store something is of.
type identity struct {
	address string // in the form of connect.Address
	prefix  string
	id      string // the store's random id; empty if it has none, or it could not be read
}

// identity returns which store this is. The error says why its id is not known.
func (r *Runner) identity(ctx context.Context) (identity, error) {
	here := identity{address: r.Address, prefix: r.Place.Prefix}
	of, has := admin.AuditOf(r.Store)
	if !has {
		return here, nil
	}
	ctx, cancel := store.BudgetContext(ctx, r.Timeout)
	defer cancel()
	var err error
	here.id, err = of.StoreID(ctx)
	return here, err
}

// originOf is the store that a backup is of, as it is to be compared with this one. The keys of other limiters are in a
// server whatever our prefix is, but its id is under the prefix.
func (r *Runner) originOf(h *backup.Header) identity {
	origin := identity{address: h.Address, prefix: h.Prefix, id: h.StoreID}
	if h.Layout != "" && origin.prefix != r.Place.Prefix {
		origin.prefix, origin.id = r.Place.Prefix, ""
	}
	if !admin.IsStoreID(origin.id) {
		origin.id = ""
	}
	return origin
}

// is reports whether two stores are certainly the same one: at one address, and not with two ids.
func (a identity) is(b identity) bool {
	return a.prefix == b.prefix && a.address == b.address && a.address != "" && (a.id == b.id || a.id == "" || b.id == "")
}

// CheckOrigin returns an [otherStoreError] if a backup is not of this store for sure, and what the store said if it does
// not tell which one it is.
func (r *Runner) CheckOrigin(ctx context.Context, b *Backup) error {
	here, err := r.identity(ctx)
	origin := r.originOf(&b.Header)
	if origin.is(here) || here.address == "" && here.id == "" {
		return nil
	}
	copied := origin.id != "" && origin.id == here.id && origin.prefix == here.prefix
	if err != nil && !copied {
		return &originUnknownError{Path: b.Path, Err: err}
	}
	return &otherStoreError{Path: b.Path, Backup: b.Header.Store, BackupID: origin.id, Here: r.Place.Store, HereID: here.id,
		MaybeCopy: copied}
}

// IsOrigin reports whether a backup with that header is of this store for sure.
func (r *Runner) IsOrigin(ctx context.Context, header *backup.Header) bool {
	here, _ := r.identity(ctx)
	return r.originOf(header).is(here)
}

// originUnknownError says that a store does not tell which one it is, and why.
type originUnknownError struct {
	Path string // of the backup
	Err  error  // the store's
}

// Error names the backup and what the store said.
func (e *originUnknownError) Error() string {
	return fmt.Sprintf("nobody can tell whether %s is a backup of this store: %s", e.Path, e.Err)
}

// Unwrap returns the store's error.
func (e *originUnknownError) Unwrap() error { return e.Err }

// otherStoreError says that a backup is of another store than the one to restore it into, or
// that nobody can tell. It is a [store.ErrInvalid].
type otherStoreError struct {
	Path             string // of the backup
	Backup, Here     string // what people call the two stores
	BackupID, HereID string // their ids, as far as they are known
	// MaybeCopy: they have the same id. It is one store that was reached in two ways, or one
	// is a copy of the other.
	MaybeCopy bool
}

// Error names both stores.
func (e *otherStoreError) Error() string {
	if e.MaybeCopy {
		return fmt.Sprintf("%s is a backup of %s, and this is %s, with the same id: the same store reached in another way, or a copy of it",
			e.Path, output.Printable(e.Backup), e.Here)
	}
	from, here := output.Printable(e.Backup), e.Here // the file may be anybody's
	if e.BackupID != "" && e.HereID != "" && e.BackupID != e.HereID {
		const shown = 8
		from, here = from+" with id "+e.BackupID[:shown]+"…", here+" with id "+e.HereID[:shown]+"…"
	}
	return fmt.Sprintf("%s is a backup of another store, %s, and this is %s", e.Path, from, here)
}

// Is makes every otherStoreError a [store.ErrInvalid].
func (e *otherStoreError) Is(target error) bool { return target == store.ErrInvalid }

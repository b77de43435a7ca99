package operation

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/limitctl/limitctl/internal/backup"
	"github.com/limitctl/limitctl/internal/files"
	"github.com/limitctl/limitctl/internal/outcome"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/internal/shell"
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

// OpenBackup opens a backup of keys with a prefix and reads it through. The caller closes it. A backup of another
// prefix is a [store.ErrInvalid], unless it is of other limiters' keys, which are under no prefix of ours.
func OpenBackup(path, prefix string) (*Backup, error) {
	file, err := files.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("the backup %q cannot be read: %w; `limitctl undo --list` names those of this "+
			"machine, and "+
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
		err = store.Invalidf("%s holds keys of the prefix %q, and the prefix here is %q; give %s", path,
			contents.Prefix, prefix,
			shell.Command("--prefix", contents.Prefix))
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return &Backup{Contents: contents, Path: path, file: file}, nil
}

// Close closes the file of the backup.
func (b *Backup) Close() error { return b.file.Close() }

// StoreKeys returns the first store keys that a restore would write, up to most, and how many there are. Of other
// limiters, subjects do not tell them: a file that was edited can name any.
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

// DamageError says how many lines of the backup could not be read and are left out; nil
// if there are none. It is an [outcome.ErrPartly].
func (b *Backup) DamageError() error {
	if b.Damaged == 0 {
		return nil
	}
	return outcome.Partly(fmt.Errorf("%s of the backup damaged: what they held was left out",
		output.Count(b.Damaged, "line")))
}

// RestorePlan says what to restore and how. The keys get the expiry they had.
type RestorePlan struct {
	// Backup is what to restore. The caller closes it.
	Backup *Backup
	// Replace brings back keys that have been used since, over what they hold. A backup of keys that were left in use
	// replaces them in any case.
	Replace bool
	// IntoOther, if set, says why this is another store than that of the backup. It gets the backup all the same, also
	// the keys that the change of the backup had not reached.
	IntoOther error
	Consent   Consent
}

// replaces reports whether keys that have been used since are overwritten.
func (p *RestorePlan) replaces() bool { return p.Replace || p.Backup.Adjusts }

// RestoreResult is the outcome of the records of a backup. Those that were restored have changed.
type RestoreResult struct {
	Counts
	Already int64 // as the backup has them, before and now
	Lapsed  int64 // nothing of them would be in use by now
	InUse   int64 // used since, and left
	// Unreached is how many the change that made the backup had not reached when it ended. They are left as they are.
	Unreached int64
}

// Restore asks, and brings back what a backup holds. Without a result nothing was changed.
func (r *Runner) Restore(ctx context.Context, plan *RestorePlan, observer Observer) (*RestoreResult, error) {
	if plan.IntoOther == nil {
		if err := r.CheckOrigin(ctx, plan.Backup); err != nil {
			return nil, err
		}
	}
	entry := r.newEntry("undo", absolute(plan.Backup.Path))
	question := "Restore " + output.Count(plan.Backup.Records, "key")
	if plan.IntoOther != nil {
		question = plan.IntoOther.Error() + ". " + question + " into it"
	}
	entry.Layout = plan.Backup.Layout
	result := &RestoreResult{Counts: Counts{Matched: int64(plan.Backup.Records)}}
	made, err := r.change(ctx, observer, &change{entry: entry, Counts: &result.Counts, consent: plan.Consent,
		question: question,
		make: func() error {
			err := result.err(plan, r.restoreRecords(ctx, plan, observer, result))
			if err == nil {
				err = plan.Backup.DamageError()
			}
			return err
		}})
	if !made {
		return nil, err
	}
	return result, err
}

// restoreRecords brings back the records of a backup, a batch at a time, and counts the outcomes.
func (r *Runner) restoreRecords(ctx context.Context, plan *RestorePlan, observer Observer,
	result *RestoreResult) error {
	if _, err := plan.Backup.file.Seek(0, 0); err != nil {
		return fmt.Errorf("the backup cannot be read again: %w", err)
	}
	progress := observer.Begin("restoring", "")
	defer progress.Close()
	return plan.Backup.Each(plan.Backup.file, keysPerBatch, func(batch backup.Batch) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		var unused, used []admin.Record
		for _, record := range batch.Records {
			switch {
			case batch.Unreached && plan.IntoOther == nil: // what became of it since is not due to the change
				result.Unreached++
			case backup.IsUnused(&record):
				unused = append(unused, record)
			default:
				used = append(used, record)
			}
		}
		if err := r.restoreUnused(ctx, plan, unused, result); err != nil {
			return err
		}
		if err := r.restoreBatch(ctx, plan, used, result); err != nil {
			return err
		}
		progress.Set(result.known(), result.Matched, 0)
		return nil
	})
}

// restoreBatch brings back some records that hold usage.
func (r *Runner) restoreBatch(ctx context.Context, plan *RestorePlan, records []admin.Record,
	result *RestoreResult) error {
	if len(records) == 0 {
		return nil
	}
	return r.within(ctx, func(ctx context.Context) error {
		outcomes, err := r.Store.Import(ctx, plan.replaces(), records...)
		left := int64(len(records))
		for _, outcome := range outcomes {
			if outcome != admin.NotKnown {
				result.count(outcome)
				left--
			}
		}
		if errors.Is(err, store.ErrOutcomeUnknown) {
			result.Unknown += left
		}
		return err
	})
}

// restoreUnused makes keys unused again that were so when the backup was made, if the backup replaces keys in use.
func (r *Runner) restoreUnused(ctx context.Context, plan *RestorePlan, records []admin.Record,
	result *RestoreResult) error {
	if !plan.replaces() { // a deletion keeps none of these
		result.Lapsed += int64(len(records))
		return nil
	}
	if len(records) == 0 {
		return nil
	}
	return r.within(ctx, func(ctx context.Context) error {
		deleted, _, err := r.Store.Delete(ctx, records...)
		var foreign Foreign
		err = foreign.take(err)
		left := int64(len(records) - deleted - foreign.Count())
		result.Changed += int64(deleted)
		result.Failed += int64(foreign.Count())
		switch {
		case err == nil:
			result.Already += left
		case errors.Is(err, store.ErrOutcomeUnknown):
			result.Unknown += left
		}
		return err
	})
}

func (r *RestoreResult) count(outcome admin.ImportOutcome) {
	switch outcome {
	case admin.Imported:
		r.Changed++
	case admin.AlreadyThere:
		r.Already++
	case admin.Lapsed:
		r.Lapsed++
	case admin.InUse:
		r.InUse++
	case admin.Foreign:
		r.Failed++
	case admin.NotKnown: // counted by the caller
	}
}

// known is how many records have a known outcome.
func (r *RestoreResult) known() int64 {
	return r.Changed + r.Already + r.Lapsed + r.InUse + r.Unreached + r.Failed
}

// err is the error that a restore ends with: what ended it early, or that some records could not be restored.
func (r *RestoreResult) err(plan *RestorePlan, err error) error {
	switch {
	case err != nil:
		err = outcome.WithProgress(err, "%d of %s %s%s", r.Changed+r.Already, output.Count(int(r.Matched), "record"),
			certainly("restored", err), goOn(err, r.known(), plan.replaces()))
		if r.known() > 0 {
			return outcome.Partly(err)
		}
		return err
	case r.Failed > 0:
		return outcome.Partly(fmt.Errorf("%s with values that limitctl did not write: left unchanged",
			output.Count(int(r.Failed), "key")))
	case r.InUse > 0:
		return outcome.Partly(&UsedSinceError{r.InUse})
	}
	return nil
}

// UsedSinceError says how many keys a restore left because they have been used since.
type UsedSinceError struct{ Keys int64 }

// Error says how many keys were left.
func (e *UsedSinceError) Error() string {
	return output.Count(int(e.Keys), "key") + " used since: left unchanged"
}

// identity says which store something is of.
type identity struct {
	address string // in the form of connect.Address
	prefix  string
	id      string // the store's random id; empty if it has none, or it could not be read
}

// identity returns which store this is. The error says why its id is not known.
func (r *Runner) identity(ctx context.Context) (here identity, err error) {
	here = identity{address: r.Address, prefix: r.Place.Prefix}
	of, has := admin.AuditOf(r.Store)
	if !has {
		return here, nil
	}
	ctx, cancel := store.BudgetContext(ctx, r.Timeout)
	defer cancel()
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
	return a.prefix == b.prefix && a.address == b.address && a.address != "" &&
		(a.id == b.id || a.id == "" || b.id == "")
}

// CheckOrigin returns a [store.ErrInvalid] if a backup is not of this store for sure, and what the store said if it
// does not tell which one it is.
func (r *Runner) CheckOrigin(ctx context.Context, b *Backup) error {
	here, err := r.identity(ctx)
	switch is := r.originOf(&b.Header).is(here) || here.address == "" && here.id == ""; {
	case is && !store.IsAway(err): // who may not read the id goes by the address
		return nil
	case err != nil:
		return fmt.Errorf("nobody can tell whether %s is a backup of this store: %w", b.Path, err)
	}
	return store.Invalidf("%s is a backup of another store, %s, and this is %s", b.Path,
		output.Printable(b.Header.Store), r.Place.Store)
}

// IsOrigin returns a function that reports whether a backup with that header is of this store for sure. The store is
// asked once, so that many backups do not wait for it one after the other. With an error it goes by the address alone.
func (r *Runner) IsOrigin(ctx context.Context) (func(*backup.Header) bool, error) {
	here, err := r.identity(ctx)
	return func(header *backup.Header) bool { return r.originOf(header).is(here) }, err
}

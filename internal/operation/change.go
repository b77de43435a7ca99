package operation

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/limitctl/limitctl/internal/auditlog"
	"github.com/limitctl/limitctl/internal/outcome"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// change is one run that changes keys others use.
type change struct {
	// entry is its line of the audit log. make completes it.
	entry *auditlog.Entry
	// consent was given before, and question is asked if it does not cover the place; an
	// empty question is not asked.
	consent  Consent
	question string
	// make makes the change.
	make func() error
	// backup, if set, is where make keeps what it changes.
	backup *backupFile
}

// keepBackup keeps the backup of a change that ended with err. It says that there is a way back if keys are changed, or may
// be; changed is how many. If none are, the backup is kept all the same, since a store can refuse in the middle of a call.
// It returns the path of the way back, and err, joined with its own error if the backup may not be whole.
func (c *change) keepBackup(err error, changed int64, observer Observer) (path string, _ error) {
	if err = c.backup.keep(err); changed == 0 {
		return "", err
	}
	observer.Undoable(c.backup.path)
	return c.backup.path, err
}

// newEntry returns the line of the audit log of a run that begins.
func (r *Runner) newEntry(command, selection string) *auditlog.Entry {
	return &auditlog.Entry{Run: auditlog.NewRun(), User: r.User, Account: r.Account, Host: r.Host,
		Context: r.Place.Context, Store: r.Place.Store, Prefix: r.Place.Prefix, Layout: r.Place.Layout, Command: command,
		Selection: selection}
}

// change opens the audit log, asks, records that the change begins, makes it, and records the
// outcome. Unless made is true, nothing was changed.
func (r *Runner) change(ctx context.Context, observer Observer, c *change) (made bool, err error) {
	if err := c.consent.Check(r.Place.Access, c.entry.Command); err != nil {
		return false, err
	}
	c.entry.Reason = cmp.Or(c.entry.Reason, c.consent.Reason)
	machine, err := r.OpenAuditLog()
	if err != nil {
		return false, err
	}
	if c.question != "" {
		if err := r.confirm(ctx, observer, c.consent, c.question); err != nil {
			return false, errors.Join(err, machine.Close())
		}
	}
	logs := &auditLogs{Runner: r, machine: machine}
	if err := logs.begin(ctx, c.entry); err != nil {
		return false, errors.Join(err, machine.Close())
	}
	if c.backup == nil { // which names it already
		r.ensureStoreID(ctx)
	}
	err = c.make()
	if c.backup != nil && !c.backup.kept { // it is removed, since nothing was changed
		c.entry.Backup = ""
	}
	return true, logs.end(ctx, c.entry, err)
}

// ensureStoreID gives the store an id if it has none, and returns it. It is empty if the user
// may not do that, or the store is away, which the change itself will say.
func (r *Runner) ensureStoreID(ctx context.Context) string {
	of, has := admin.AuditOf(r.Store)
	if !has {
		return ""
	}
	ctx, cancel := store.BudgetContext(ctx, r.Timeout)
	defer cancel()
	id, err := of.EnsureStoreID(ctx)
	if err != nil {
		return ""
	}
	return id
}

// auditLogs are the two places that record a run.
type auditLogs struct {
	*Runner
	// machine is the audit log of this machine. Without it nothing is changed.
	machine auditlog.Writer
	// refused: the store has no journal, or does not let us write to it.
	refused bool
	// warned: it was said already that the store does not know of the run.
	warned bool
}

// begin writes that a run begins. If it fails nothing may be changed.
func (l *auditLogs) begin(ctx context.Context, entry *auditlog.Entry) error {
	entry.Began = l.Now().UTC()
	intent := *entry
	intent.Time, intent.Outcome = entry.Began, auditlog.Begun
	if err := l.machine.Write(&intent); err != nil {
		return fmt.Errorf("the audit log cannot be written: %w; nothing was changed", err)
	}
	l.tell(ctx, &intent)
	return nil
}

// end writes the entry of a run that ended with err, and closes the audit log. It returns err,
// joined with its own error if the audit log could not be written.
func (l *auditLogs) end(ctx context.Context, entry *auditlog.Entry, err error) error {
	entry.Time = l.Now().UTC()
	switch {
	case err == nil:
		entry.Outcome = auditlog.Done
	case ctx.Err() != nil:
		entry.Outcome = auditlog.Interrupted
	case errors.Is(err, outcome.ErrPartly):
		entry.Outcome = auditlog.Partly
	default:
		entry.Outcome = auditlog.Failed
	}
	if err != nil {
		entry.Error = l.Describe(err)
	}
	logErr := errors.Join(l.machine.Write(entry), l.machine.Close())
	l.tell(ctx, entry)
	if logErr != nil {
		return errors.Join(err, outcome.Partly(fmt.Errorf("the audit log could not be written: %w", logErr)))
	}
	return err
}

// tell writes an entry to the store's journal, for all who use the store, also if the
// operation is interrupted meanwhile. If it cannot write, it warns once, and the operation goes on: an operator at night
// who lacks a right must be able to work.
func (l *auditLogs) tell(ctx context.Context, entry *auditlog.Entry) {
	journal, has := admin.AuditOf(l.Store)
	if !has || l.refused {
		return
	}
	text, err := entry.Text(admin.MaxJournalText)
	if err == nil {
		err = l.within(ctx, func(ctx context.Context) error { return journal.AppendJournal(ctx, text) })
	}
	if err == nil {
		return
	}
	l.refused = !store.IsAway(err) // one that was away may be back for the outcome
	if l.Warn != nil && !l.warned {
		l.warned = true
		l.Warn(fmt.Errorf("the audit log in the store cannot be written, so only this machine has it: %w", err))
	}
}

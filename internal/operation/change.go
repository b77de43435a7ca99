package operation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/limitctl/limitctl/internal/auditlog"
	"github.com/limitctl/limitctl/internal/connect"
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

// Consent is what somebody has agreed to before being asked, and why.
type Consent struct {
	// Yes agrees to any change, except in a protected context.
	Yes bool
	// Context agrees to any change in the context of that name, also a protected one.
	Context string
	// Reason is why, for the audit log. Nobody has to say it.
	Reason string
}

// Covers reports whether nobody needs to be asked.
func (c Consent) Covers(a Access) bool {
	return c.Context != "" && c.Context == a.Context || c.Yes && !a.Protected
}

// Check returns why a change cannot be made even with a yes: the context is read-only
// (a [connect.ReadOnlyError]), or the consent names another one (a [WrongContextError]).
// what is the operation, such as "reset".
func (c Consent) Check(a Access, what string) error {
	switch {
	case a.ReadOnly:
		return &connect.ReadOnlyError{Context: a.Context, What: what}
	case c.Context != "" && c.Context != a.Context:
		return &WrongContextError{Agreed: c.Context, InUse: a.Context}
	}
	return nil
}

// WrongContextError says that a consent is for another context than the one in use. It is
// a [store.ErrInvalid].
type WrongContextError struct {
	Agreed string // the context of the consent
	InUse  string // empty if none is in use
}

// Error names both contexts.
func (e *WrongContextError) Error() string {
	if e.InUse == "" {
		return fmt.Sprintf("the consent is for context %s, and no context is in use", e.Agreed)
	}
	return fmt.Sprintf("the consent is for context %s, and the context in use is %s", e.Agreed, e.InUse)
}

// Is makes every WrongContextError a [store.ErrInvalid].
func (e *WrongContextError) Is(target error) bool { return target == store.ErrInvalid }

// Question is asked before something is changed.
type Question struct {
	// Text is the question without its question mark, such as "Delete 3 keys".
	Text string
	// Context is the protected context whose name has to be typed for a yes; empty for a
	// question that yes and no answer.
	Context string
}

// IsYes reports whether an answer, as it was typed, is a clear yes.
func (q Question) IsYes(answer string) bool {
	answer = strings.TrimSpace(answer)
	if q.Context != "" {
		return answer == q.Context
	}
	return strings.EqualFold(answer, "y") || strings.EqualFold(answer, "yes")
}

// Observer follows an operation and confirms it before anything is changed. An operation calls it from
// one goroutine.
type Observer interface {
	// Begin says that a step begins, and returns what takes its progress.
	Begin(step Step) Progress
	// Selected shows what a reset is about to change, before it asks.
	Selected(s *Selected)
	// Confirm asks. It returns nil for a clear yes, and an error for a no or if it cannot
	// ask; the operation ends with this error and changes nothing.
	Confirm(ctx context.Context, q Question) error
	// Undoable gets the absolute path of the backup from which a change can be undone, as soon as that is whole.
	Undoable(backup string)
}

// confirm asks the observer unless the consent covers the place.
func (r *Runner) confirm(ctx context.Context, observer Observer, consent Consent, text string) error {
	if consent.Covers(r.Place.Access) {
		return nil
	}
	question := Question{Text: text}
	if r.Place.Protected {
		question.Context = r.Place.Context
	}
	err := observer.Confirm(ctx, question)
	if err != nil && ctx.Err() != nil {
		return outcome.WithProgress(err, "nothing was changed")
	}
	return err
}

// Selected is what a reset is about to change.
type Selected struct {
	// Count is how many keys.
	Count int
	// Sample is the first few of them.
	Sample []admin.Entry
	// Limits is how they divide into limits, those with most keys first, so that one
	// sees at once if a selection goes too far.
	Limits []LimitCount
	// Layouts are those of other limiters whose keys are among them, by name.
	Layouts []string
	// Remaining is what an adjustment leaves, nil if the keys are deleted. Effect is what it
	// would do.
	Remaining *Remaining
	Effect    Effect
	// Incomplete is why not all keys could be looked at, nil if all were.
	Incomplete error
}

// LimitCount is how many keys a limit has.
type LimitCount struct {
	Name string // as [policy.LimitName] has it, or of another limiter as it is
	Keys int
}

// sampled is how many keys are in a sample.
const sampled = 5

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
	"github.com/limitctl/limitctl/internal/progress"
	"github.com/limitctl/limitctl/internal/shell"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Counts are what became of the keys, overrides or limits that a run is about.
type Counts struct {
	Matched int64 // were selected
	Changed int64 // are changed, for sure
	Failed  int64 // were left, since they hold what limitctl did not write, or cannot be restored
	Unknown int64 // have no known outcome, at most so many
}

// Left is how many are as they were, as far as that is known.
func (c *Counts) Left() int64 { return c.Matched - c.Changed - c.Unknown }

// change is one run that changes what others use.
type change struct {
	// entry is its line of the audit log. change gives it the counts and the outcome.
	entry *auditlog.Entry
	*Counts
	// consent was given before, and question is asked if it does not cover the place.
	consent  Consent
	question string
	// make makes the change, and counts.
	make func() error
	// backup, if set, is where make keeps what it changes.
	backup *backupFile
}

// newEntry returns the line of the audit log of a run that begins.
func (r *Runner) newEntry(command, selection string) *auditlog.Entry {
	return &auditlog.Entry{Run: auditlog.NewRun(), User: r.User, Account: r.Account, Host: r.Host,
		Context: r.Place.Context, Store: r.Place.Store, Prefix: r.Place.Prefix, Layout: r.Place.Layout,
		Command:   command,
		Selection: selection}
}

// change opens the audit log, asks, records that the change begins, makes it, and records the
// outcome. Unless made is true, nothing was changed.
func (r *Runner) change(ctx context.Context, observer Observer, c *change) (made bool, err error) {
	entry := c.entry
	if err := c.consent.Check(r.Place.Access, entry.Command); err != nil {
		return false, err
	}
	entry.Reason = cmp.Or(entry.Reason, c.consent.Reason)
	machine, err := r.OpenAuditLog()
	if err != nil {
		return false, err
	}
	if err := r.confirm(ctx, observer, c.consent, c.question); err != nil {
		return false, errors.Join(err, machine.Close())
	}
	tell := r.journal(ctx)
	entry.Began, entry.Matched = r.Now().UTC(), c.Matched
	begun := *entry
	begun.Time, begun.Outcome = entry.Began, auditlog.Begun
	if err := machine.Write(&begun); err != nil {
		return false, errors.Join(fmt.Errorf("the audit log cannot be written: %w; nothing was changed", err),
			machine.Close())
	}
	tell(&begun)
	if c.backup == nil { // which names it already
		r.ensureStoreID(ctx)
	}
	err = c.make()
	if c.backup != nil && !c.backup.kept { // it is removed, since nothing was changed
		entry.Backup = ""
	}
	entry.Time, entry.Changed, entry.Unknown = r.Now().UTC(), c.Changed, c.Unknown
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
		entry.Error = r.Describe(err)
	}
	logErr := errors.Join(machine.Write(entry), machine.Close())
	tell(entry)
	if logErr != nil {
		err = errors.Join(err, outcome.Partly(fmt.Errorf("the audit log could not be written: %w", logErr)))
	}
	return true, err
}

// journal returns what writes an entry to the store's journal, for all who use the store, also if the operation is
// interrupted meanwhile. If it cannot write, it warns once, and the operation goes on: an operator at night who lacks a
// right must be able to work.
func (r *Runner) journal(ctx context.Context) (tell func(*auditlog.Entry)) {
	journal, has := admin.AuditOf(r.Store)
	warned := false
	return func(entry *auditlog.Entry) {
		if !has {
			return
		}
		text, err := entry.Text(admin.MaxJournalText)
		if err == nil {
			err = r.within(ctx, func(ctx context.Context) error { return journal.AppendJournal(ctx, text) })
		}
		if err == nil {
			return
		}
		has = store.IsAway(err) // one that was away may be back for the outcome
		if r.Warn != nil && !warned {
			warned = true
			r.Warn(fmt.Errorf("the audit log in the store cannot be written, so only this machine has it: %w", err))
		}
	}
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

// Check returns why a change cannot be made even with a yes: the context is read-only (a [connect.ReadOnlyError]), or
// the consent names another one. what is the operation, such as "reset".
func (c Consent) Check(a Access, what string) error {
	switch {
	case a.ReadOnly:
		return &connect.ReadOnlyError{Context: a.Context, What: what}
	case c.Context != "" && a.Context == "":
		return store.Invalidf("%s names a context, but no context is in use; nothing was done",
			shell.Command("--confirm", c.Context))
	case c.Context != "" && c.Context != a.Context:
		return store.Invalidf("%s is not the name of the context of this store, which is %s; nothing was done",
			shell.Command("--confirm", c.Context), a.Context)
	}
	return nil
}

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

// Observer follows an operation and confirms it before anything is changed. An operation calls it from one goroutine.
type Observer interface {
	// Begin says that a step begins, such as "scanning", and returns what takes its progress, nil for nothing. noun is
	// what it counts beside the keys that are done, such as "matched".
	Begin(step, noun string) *progress.Bar
	// Selected shows what a reset is about to change, before it asks.
	Selected(r *ResetResult)
	// Confirm asks. It returns nil for a clear yes, and an error for a no or if it cannot
	// ask; the operation ends with this error and changes nothing.
	Confirm(ctx context.Context, q Question) error
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

// keysPerBatch is how many keys are changed between two looks at whether the operation was interrupted. A batch that
// has begun is finished, so that the count is right.
const keysPerBatch = 500

// within calls try with the time that one exchange with the store may take, also if the operation is interrupted
// meanwhile.
func (r *Runner) within(ctx context.Context, try func(context.Context) error) error {
	ctx, cancel := store.BudgetContext(context.WithoutCancel(ctx), r.Timeout)
	defer cancel()
	return try(ctx)
}

// certainly says that something is done of which the count is right, or may be too low because of err.
func certainly(done string, err error) string {
	if errors.Is(err, store.ErrOutcomeUnknown) {
		return "known to be " + done
	}
	return done
}

// goOn says how to go on after so much was done of a change, if the store did not answer then. overwrites: a second run
// would change again what is done.
func goOn(err error, done int64, overwrites bool) string {
	if !store.IsAway(err) || done == 0 && !errors.Is(err, store.ErrOutcomeUnknown) {
		return ""
	}
	if overwrites {
		return "; a second run also changes the keys that are done, which forgets what was used of them since"
	}
	return "; run it again for the rest, with --timeout 30s if the server is slow"
}

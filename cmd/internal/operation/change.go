package operation

import (
	"context"
	"errors"
	"fmt"

	"github.com/limitctl/limitctl/cmd/internal/outcome"
	"github.com/limitctl/limitctl/cmd/internal/trail"
	"github.com/limitctl/limitctl/pkg/limiter"
)

// change is one run that changes keys others use.
type change struct {
	// entry is its line of the trail. make completes it.
	entry *trail.Entry
	// consent was given before, and question is asked if it does not cover the place; an
	// empty question is not asked.
	consent  Consent
	question string
	// make makes the change.
	make func() error
	// storeID is the id of the store, which it has when make is called; empty if it could not
	// be given one.
	storeID string
}

// newEntry returns the line of the trail of a run that begins.
func (r *Runner) newEntry(command, selection string) *trail.Entry {
	return &trail.Entry{User: r.User, Context: r.Place.Context, Store: r.Place.Store, Prefix: r.Place.Prefix,
		Command: command, Selection: selection}
}

// change opens the trail, asks, makes the change and writes its line. Unless made is
// true nothing was changed.
func (r *Runner) change(ctx context.Context, observer Observer, c *change) (made bool, err error) {
	if err := c.consent.Check(r.Place.Access, c.entry.Command); err != nil {
		return false, err
	}
	writer, err := r.OpenTrail()
	if err != nil {
		return false, err
	}
	if c.question != "" {
		if err := r.confirm(ctx, observer, c.consent, c.question); err != nil {
			return false, errors.Join(err, writer.Close())
		}
	}
	c.storeID = r.ensureStoreID(ctx)
	return true, r.record(ctx, writer, c.entry, c.make())
}

// ensureStoreID gives the store an id if it has none, and returns it. It is empty if the user
// may not do that, or the store is away, which the change itself will say.
func (r *Runner) ensureStoreID(ctx context.Context) string {
	of, has := limiter.IdentityOf(r.Store)
	if !has {
		return ""
	}
	ctx, cancel := limiter.BudgetContext(ctx, r.Timeout)
	defer cancel()
	id, err := of.EnsureStoreID(ctx)
	if err != nil {
		return ""
	}
	return id
}

// record writes the entry of a run that ended with err, and closes the trail. It returns
// err, joined with its own error if the trail could not be written.
func (r *Runner) record(ctx context.Context, writer trail.Writer, entry *trail.Entry, err error) error {
	entry.Time = r.Now().UTC()
	switch {
	case err == nil:
		entry.Outcome = trail.Done
	case ctx.Err() != nil:
		entry.Outcome = trail.Interrupted
	case errors.Is(err, outcome.ErrPartly):
		entry.Outcome = trail.Partly
	default:
		entry.Outcome = trail.Failed
	}
	if err != nil {
		entry.Error = r.Describe(err)
	}
	if trailErr := errors.Join(writer.Write(entry), writer.Close()); trailErr != nil {
		return errors.Join(err, outcome.Partly(fmt.Errorf("the audit could not be written: %w", trailErr)))
	}
	return err
}

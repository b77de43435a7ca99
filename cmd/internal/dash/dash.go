// Package dash is a live view of rate limits in a terminal. One loop (update.go) owns the
// state (model.go, feed.go, and a file for each screen). The store is read outside the loop
// (fetch.go, scan.go). Drawing (view*.go) depends on the state alone.
package dash

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Options say what a dashboard shows and what it may do.
type Options struct {
	// Store is what is looked at.
	Store admin.Keyspace
	// Find, if set, finds what a query selects instead of a scan of Store.
	Find func(context.Context, admin.Query) iter.Seq2[admin.Entry, error]
	// Query selects the keys, and Keep, if set, which of their states are shown.
	Query admin.Query
	Keep  func(*admin.Entry) bool
	// Denials is the store's table of who was denied; nil if it has none.
	Denials admin.DenialTable
	// Overrides is the store's table of overrides; nil if it has none.
	Overrides admin.OverrideTable
	// InForce returns the limit that counts now for the key of an entry, which has the recorded one, under
	// the override that applies to the key; nil for none. It may be called concurrently. Without it the
	// recorded limit counts.
	InForce func(*admin.Entry, *store.Override) store.Limit
	// Servers asks the masters what they say of themselves; nil for a store that
	// has none.
	Servers func(ctx context.Context) []Server
	// NodeOf names the node that has the keys of a subject; nil for a store that is all in
	// one place.
	NodeOf func(ctx context.Context, subject string) string
	// Actions change keys; nil where nothing may be changed.
	Actions Actions
	// Layouts names the layouts of other limiters by which the keys are read, as --layout takes
	// them; empty for limitctl's own keys.
	Layouts string
	// Beyond says what deleting the keys of a layout does not reach; "" if there is nothing.
	Beyond func(layout string) string
	// Where names the store, and Context the context it is of, if any. A change
	// in a Protected one needs its name typed.
	Where, Context string
	Protected      bool
	// Selection is the selected keys in words.
	Selection string
	// Refresh is how often the keys are looked at.
	Refresh time.Duration
	// Timeout is how long an answer is waited for.
	Timeout time.Duration
	// MaxKeys is how many keys are followed at most. ScanRate is how many keys a second
	// are scanned to find them; 0 is a rate that leaves the server its work.
	MaxKeys, ScanRate int
	// LookYourself is the command that shows a value of a type, which the command TYPE names, ""
	// if there is none.
	LookYourself func(storeKey, valueType string) string
	// Record, if set, gets every snapshot as a line of JSON; Play, if set, is such
	// lines to be shown instead of a store.
	Record io.Writer
	Play   io.Reader
	Now    func() time.Time
	// Tmux: the terminal is one of tmux.
	Tmux bool
	// Sleep waits, and returns the context's error if that ends first.
	Sleep func(ctx context.Context, d time.Duration) error
	Color bool
}

// Actions are what can be done to keys from the dashboard.
type Actions interface {
	// Reset makes the keys unused and keeps a backup of what they were.
	Reset(ctx context.Context, keys []ID) (Changed, error)
	// Undo brings back what a reset deleted. Keys that were used since then are left as
	// they are, unless replace is true.
	Undo(ctx context.Context, reset Changed, replace bool) (Changed, error)
	// ParseOverride reads what was typed in. Whom the override is about is not in it.
	ParseOverride(form OverrideForm) (override store.Override, lasts time.Duration, err error)
	// SetOverride sets an override, and returns it as the store has it.
	SetOverride(ctx context.Context, override store.Override, lasts time.Duration) (store.Override, error)
	// RevokeOverride ends the override of an ID.
	RevokeOverride(ctx context.Context, id, reason string) error
}

// Changed is the result of an action.
type Changed struct {
	Keys   int64  // how many keys it changed
	InUse  int64  // how many it left as they are, because they were used since
	Lapsed int64  // how many it did not bring back, because they would have expired
	Backup string // the file to undo it with
}

// Run shows the dashboard on a terminal until it is left.
func Run(ctx context.Context, in io.Reader, out io.Writer, o Options) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends a scan that is going on
	m := newModel(ctx, o)
	m.clipboard = out
	program := tea.NewProgram(careful{m}, tea.WithContext(ctx), tea.WithInput(in), tea.WithOutput(out), tea.WithAltScreen(),
		tea.WithMouseCellMotion(), tea.WithoutSignalHandler())
	_, err := program.Run()
	if panicked := m.changes.working.Wait(); m.failed == nil { // an action that was begun is finished
		m.failed = panicked
	}
	switch {
	case errors.Is(err, tea.ErrProgramPanic):
		return fmt.Errorf("the dashboard failed: %w", err)
	case ctx.Err() != nil:
		return ctx.Err()
	case m.interrupted:
		return context.Canceled
	case m.failed != nil:
		return m.failed
	}
	return err
}

// Once writes one frame of that many columns and lines as text; 0 is as many as it needs. It scans all keys, as fast
// as possible unless there is a ScanRate, and reads the followed ones twice, since units a
// second are the difference between two reads.
func Once(ctx context.Context, out io.Writer, o Options, columns, lines int) error {
	if o.ScanRate == 0 {
		o.ScanRate = atOnce
	}
	o.Actions = nil
	m := newModel(ctx, o)
	m.still, m.width, m.height = true, cmp.Or(columns, leastOnce), cmp.Or(lines, far)
	if look := m.lookOverrides(); look != nil {
		m.feed.overrides.take(look().(overridesLook))
	}
	if err := m.scanOnce(); err != nil {
		return err
	}
	if look := m.lookDenials(); look != nil { // the mean of the last minute, as there is no look before
		m.Update(look())
	}
	for look := range 2 {
		if look > 0 {
			if err := o.Sleep(ctx, o.Refresh); err != nil {
				return err
			}
		}
		msg := m.look()()
		m.Update(msg)
		if failed, is := msg.(recordingFailed); is {
			return failed.err
		}
		if m.feed.problem != nil {
			return m.feed.problem
		}
	}
	if columns == 0 {
		m.width = leastOnce + max(m.keys.needs.usual.columns, m.keys.needs.denied.columns)
	}
	if lines == 0 {
		m.height = len(m.headLines()) + len(m.keys.lines(m)) + 1
	}
	for text := range strings.Lines(m.View()) {
		if _, err := fmt.Fprintln(out, strings.TrimRight(text, " \n")); err != nil {
			return err
		}
	}
	return nil
}

// leastOnce is how many columns a frame has without a terminal, besides those of subjects.
const leastOnce = 100

// scanOnce finds the keys there are.
func (m *model) scanOnce() error {
	begin := m.scan()
	if begin == nil {
		return nil
	}
	for {
		s, more := begin().(scanned)
		if !more {
			return m.ctx.Err()
		}
		m.absorbScan(s)
		if s.done {
			return s.err
		}
		begin = await(s.next)
	}
}

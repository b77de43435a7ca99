// Package dash is a live view of rate limits in a terminal. One loop (update.go) owns the
// state: model.go, feed.go for what the store said, and a file for each screen and each box,
// which also draws it. view.go draws what is around them. Package source reads the store
// outside the loop, and package followed knows the keys and their order. The other files know
// nothing of the model: how rows are cut into columns and drawn.
package dash

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/limitctl/limitctl/internal/dash/guard"
	"github.com/limitctl/limitctl/internal/dash/source"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// The types that a caller of the dashboard needs. Package source, which reads the store, needs them too and declares them.
type (
	// Options say what a dashboard shows and what it may do.
	Options = source.Options
	// Actions are what can be done to keys from the dashboard.
	Actions = source.Actions
	// Changed is the result of an action.
	Changed = source.Changed
	// OverrideForm is an override as it is typed in.
	OverrideForm = source.OverrideForm
	// ID names a row.
	ID = source.ID
	// Document is the data of one frame.
	Document = source.Document
	// Server is what one master says about itself.
	Server = source.Server
)

// QueryOf returns a query of exactly these rows. subjects are those of the whole selection, so
// that layouts are asked for these keys as they are for all.
func QueryOf(subjects store.Pattern, ids []ID) admin.Query { return source.QueryOf(subjects, ids) }

// Run shows the dashboard on a terminal until it is left.
func Run(ctx context.Context, in io.Reader, out io.Writer, o Options) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends a scan that is going on
	m := newModel(ctx, o)
	m.clipboard = out
	guarded := guard.Model{Model: &guard.Frames{Model: m, Silent: onlyReads}, Failed: &m.failed}
	program := tea.NewProgram(guarded, tea.WithContext(ctx), tea.WithInput(in), tea.WithOutput(out), tea.WithAltScreen(),
		tea.WithMouseCellMotion(), tea.WithoutSignalHandler(), tea.WithFPS(guard.FramesPerSecond))
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

// leastOnce is how many columns a frame has without a terminal, besides those of subjects.
const leastOnce = 100

// scanOnce finds the keys there are.
func (m *model) scanOnce() error {
	begin := m.scan()
	if begin == nil {
		return nil
	}
	for {
		s, more := begin().(source.Scanned)
		if !more {
			return m.ctx.Err()
		}
		m.absorbScan(s)
		if s.Done {
			return s.Err
		}
		begin = source.Await(s.Next)
	}
}

// Once writes one frame of that many columns and lines as text; 0 is as many as it needs. It scans all keys, and reads
// the followed ones twice, since units a second are the difference between two reads.
func Once(ctx context.Context, out io.Writer, o Options, columns, lines int) error {
	o.Actions = nil
	m := newModel(ctx, o)
	m.still, m.width, m.height = true, cmp.Or(columns, leastOnce), cmp.Or(lines, far)
	if look := m.lookOverrides(); look != nil {
		m.feed.overrides.take(look().(source.OverridesLook))
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
		if m.feed.problem != nil {
			return m.feed.problem
		}
		if look > 0 && m.feed.overrides.problem != nil && o.Unread != nil {
			o.Unread(m.feed.overrides.problem)
		}
		if fetched, is := msg.(source.Fetched); is && look > 0 && o.Document != nil {
			fetched.Denials = m.feed.denials.Frame(m.now)
			return o.Document(source.NewDocument(&fetched.Snapshot, m.feed.overrides.list))
		}
	}
	if columns == 0 {
		m.width = leastOnce + max(m.keys.needs.usual.columns, m.keys.needs.hottest.columns)
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

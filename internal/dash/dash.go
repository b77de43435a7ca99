// Package dash is a live view of rate limits in a terminal. One loop (Update) owns the state. Screens are list (all
// keys), detail (one key) and inforce (overrides). change asks, live is what the store said, ui what all is drawn with.
package dash

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/limitctl/limitctl/internal/dash/live"
	"github.com/limitctl/limitctl/internal/dash/ui"
)

// Run shows the dashboard on a terminal until it is left.
func Run(ctx context.Context, in io.Reader, out io.Writer, o live.Options, theme *ui.Theme) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends a scan that is going on
	m := newModel(ctx, o, theme)
	const framesPerSecond = 20 // more often costs more than it shows
	program := tea.NewProgram(m, tea.WithContext(ctx), tea.WithInput(in), tea.WithOutput(out), tea.WithAltScreen(),
		tea.WithoutSignalHandler(), tea.WithFPS(framesPerSecond))
	_, err := program.Run()
	panicked := m.change.Wait() // an action that was begun is finished
	switch {
	case errors.Is(err, tea.ErrProgramPanic):
		return fmt.Errorf("the dashboard failed: %w", err)
	case ctx.Err() != nil:
		return ctx.Err()
	case m.interrupted:
		return context.Canceled
	}
	return cmp.Or(panicked, err)
}

// Once writes one frame of that many columns and lines as text; 0 is as many as it needs. It scans all keys, and reads
// the followed ones twice, since units a second are the difference between two reads.
func Once(ctx context.Context, out io.Writer, o live.Options, theme *ui.Theme, columns, lines int) error {
	o.Actions = nil
	m := newModel(ctx, o, theme)
	m.list.Still, m.width, m.height = true, cmp.Or(columns, 1000), cmp.Or(lines, ui.End)
	f := m.feed
	if look := f.LookServers(); look != nil {
		f.Update(look())
	}
	if err := f.ScanAll(); err != nil {
		return err
	}
	if look := f.LookDenials(); look != nil { // the mean of the last minute, as there is no look before
		f.Update(look())
	}
	for n := range 2 {
		if n > 0 {
			if err := o.Sleep(ctx, o.Refresh); err != nil {
				return err
			}
		}
		if m.Update(f.Look()()); f.Problem != nil {
			return f.Problem
		}
	}
	if f.Overrides.Problem != nil && o.Unread != nil {
		o.Unread(f.Overrides.Problem)
	}
	if lines == 0 {
		m.height = len(m.head()) + len(m.body(ui.End)) + 1
	}
	for text := range strings.Lines(m.View()) {
		if _, err := fmt.Fprintln(out, strings.TrimRight(text, " \n")); err != nil {
			return err
		}
	}
	return nil
}

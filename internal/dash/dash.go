// Package dash is a live view of rate limits in a terminal. One loop (Update) owns the
// state: model.go, feed.go for what the store said, and a file for each screen and each box,
// which also draws it. view.go draws what is around them. scan.go reads the store outside the
// loop, and rows.go knows the keys and their order. columns.go and draw.go know nothing of the
// model: how rows are cut into columns and drawn.
package dash

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/limitctl/limitctl/internal/panics"
)

// Run shows the dashboard on a terminal until it is left.
func Run(ctx context.Context, in io.Reader, out io.Writer, o Options) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends a scan that is going on
	m := newModel(ctx, o)
	m.clipboard = out
	guarded := guarded{Model: &frameLimiter{Model: m, Silent: onlyReads}, Failed: &m.failed}
	program := tea.NewProgram(guarded, tea.WithContext(ctx), tea.WithInput(in), tea.WithOutput(out), tea.WithAltScreen(),
		tea.WithMouseCellMotion(), tea.WithoutSignalHandler(), tea.WithFPS(framesPerSecond))
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
		s, more := begin().(scanned)
		if !more {
			return m.ctx.Err()
		}
		m.absorbScan(s)
		if s.Done {
			return s.Err
		}
		begin = await(s.Next)
	}
}

// Once writes one frame of that many columns and lines as text; 0 is as many as it needs. It scans all keys, and reads
// the followed ones twice, since units a second are the difference between two reads.
func Once(ctx context.Context, out io.Writer, o Options, columns, lines int) error {
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
		if m.feed.problem != nil {
			return m.feed.problem
		}
		if look > 0 && m.feed.overrides.problem != nil && o.Unread != nil {
			o.Unread(m.feed.overrides.problem)
		}
		if fetched, is := msg.(fetched); is && look > 0 && o.Document != nil {
			if !m.NotCounted || m.feed.denials.Total > 0 {
				fetched.Denials = m.feed.denials.Frame(m.now)
			}
			return o.Document(newDocument(&fetched.snapshot, m.feed.overrides.list))
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

// onlyReads reports whether a message makes the dashboard read the store, and changes nothing that is drawn.
func onlyReads(msg tea.Msg) bool {
	switch msg.(type) {
	case refreshDue, denialsDue, overridesDue, passDue:
		return true
	}
	return false
}

// Update implements tea.Model.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg.(type) {
	case tea.WindowSizeMsg, tea.KeyMsg, tea.MouseMsg:
		m.keys.changed = true
	}
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
		m.arrange()
	case tea.KeyMsg:
		return m, m.press(msg)
	case tea.MouseMsg:
		return m, m.mouse(msg)
	case fetched:
		m.now = m.Now()
		m.absorb(msg)
		return m, m.nextLook(msg.Took)
	case refreshDue:
		if msg.tick == m.ticks && !m.paused {
			return m, m.look()
		}
	case scanned:
		return m, m.absorbScan(msg)
	case deniedSince:
		return m, m.absorbDenials(msg)
	case denialsDue:
		if m.paused {
			return m, m.after(max(m.Refresh, denialsEvery), denialsDue{})
		}
		return m, m.lookDenials()
	case overridesLook:
		return m, m.absorbOverrides(msg)
	case overridesDue:
		if m.paused {
			return m, m.after(max(m.Refresh, overridesEvery), overridesDue{})
		}
		return m, m.lookOverrides()
	case overrideDone:
		return m, m.absorbOverrideDone(msg)
	case passDue:
		switch {
		case msg.pass != m.feed.pass: // a scan began meanwhile
			return m, nil
		case m.paused || m.isAway():
			return m, m.after(passEvery/2, msg)
		}
		return m, m.scan()
	case clockTick:
		m.now = m.Now()
		if m.now.After(m.note.until) {
			m.note = note{}
		}
		return m, m.clock()
	case resetDone:
		return m, m.absorbReset(msg)
	case actionFailed:
		m.changes.acting = false
		m.complain(msg.err)
	case undoDone:
		return m, m.absorbUndo(msg)
	case taken:
		return m, m.absorbTaken(msg)
	case copied:
		m.absorbCopied(msg)
	}
	return m, nil
}

// nextLook plans the look after one that took so long.
func (m *model) nextLook(took time.Duration) tea.Cmd {
	m.ticks++
	// A store that takes long is given at least as long a rest.
	pause := max(m.Refresh, m.LeastRefresh(len(m.feed.rows))) - took
	return m.after(max(pause, min(took, m.Refresh)), refreshDue{m.ticks})
}

// mouse follows the wheel, and clicks on headers and rows.
func (m *model) mouse(msg tea.MouseMsg) tea.Cmd {
	if m.isAsking() || msg.Action != tea.MouseActionPress {
		return nil
	}
	const step = 3
	switch msg.Button {
	case tea.MouseButtonWheelUp:
		return m.move(-step)
	case tea.MouseButtonWheelDown:
		return m.move(step)
	case tea.MouseButtonLeft:
		return m.screen.click(m, msg.X, msg.Y-len(m.headLines()))
	}
	return nil
}

// Model is one in which a panic becomes an error that ends the program. By itself bubbletea prints the goroutine's
// stack over the screen.
type guarded struct {
	tea.Model
	Failed *error // where the error of a panic goes
}

// panicked is the message that a command ended with a panic.
type panicked struct{ err error }

// Init implements tea.Model.
func (c guarded) Init() (cmd tea.Cmd) {
	return c.guard(func() tea.Cmd { return c.Model.Init() })
}

// Update implements tea.Model.
func (c guarded) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	if bug, is := msg.(panicked); is {
		*c.Failed = bug.err
		return c, tea.Quit
	}
	return c, c.guard(func() tea.Cmd {
		_, cmd := c.Model.Update(msg)
		return cmd
	})
}

// View implements tea.Model. A panic here ends the dashboard at the next message.
func (c guarded) View() (view string) {
	err := panics.Call(func() error {
		view = c.Model.View()
		return nil
	})
	if err != nil {
		*c.Failed = err
	}
	return view
}

// guard calls f, and quits after a panic of it or of View.
func (c guarded) guard(f func() tea.Cmd) (cmd tea.Cmd) {
	err := panics.Call(func() error {
		cmd = f()
		return nil
	})
	if err != nil {
		*c.Failed = err
	}
	if *c.Failed != nil {
		return tea.Quit
	}
	return caught(cmd)
}

// caught is a command whose panic becomes a message, and of a batch those of all in it.
func caught(cmd tea.Cmd) tea.Cmd {
	if cmd == nil {
		return nil
	}
	return func() (msg tea.Msg) {
		err := panics.Call(func() error {
			msg = cmd()
			return nil
		})
		if err != nil {
			return panicked{err}
		}
		if batch, is := msg.(tea.BatchMsg); is {
			for i := range batch {
				batch[i] = caught(batch[i])
			}
		}
		return msg
	}
}

// framesPerSecond is how often a terminal gets what has changed. More often costs more than it shows.
const framesPerSecond = 20

// Frames is a model that draws again only after messages that can change what is drawn.
type frameLimiter struct {
	tea.Model
	Silent func(tea.Msg) bool // reports whether a message changes nothing that is drawn
	last   string
	drawn  bool // nothing has changed since
}

// Update implements tea.Model.
func (f *frameLimiter) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	f.drawn = f.drawn && f.Silent(msg)
	_, cmd := f.Model.Update(msg)
	return f, cmd
}

// View implements tea.Model.
func (f *frameLimiter) View() string {
	if !f.drawn {
		f.last, f.drawn = f.Model.View(), true
	}
	return f.last
}

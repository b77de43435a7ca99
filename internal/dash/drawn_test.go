package dash

import (
	"testing"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/limitctl/limitctl/internal/dash/live"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// What is due only makes the dashboard read: the screen changes with the answer.
func TestWhatIsDueChangesNothingThatIsDrawn(t *testing.T) {
	d := begin(t, three, nil)
	screen := &frameLimiter{Model: d.model, Silent: live.OnlyReads}
	for round := range 3 {
		d.take(store.Key{Subject: "calm"}, "fixed-window:100/1h", 1)
		d.now = d.now.Add(time.Second)
		due := d.pending
		d.pending = nil
		for _, cmd := range due {
			d.awake = true
			msg := cmd()
			d.awake = false
			before := d.View()
			_, cmd := screen.Update(msg)
			if after := d.View(); live.OnlyReads(msg) && after != before {
				t.Errorf("%T changes the screen from\n%s\nto\n%s", msg, before, after)
			}
			d.run(through(screen, cmd))
			if got, want := screen.View(), d.View(); got != want {
				t.Errorf("round %d: after what %T brought the screen shows\n%s\nwant\n%s", round, msg, got, want)
			}
		}
	}
}

// through runs a command, and gives what it brings to the screen.
func through(screen tea.Model, cmd tea.Cmd) tea.Cmd {
	if cmd == nil {
		return nil
	}
	return func() tea.Msg {
		switch msg := cmd().(type) {
		case nil, tea.BatchMsg:
			return msg
		default:
			_, next := screen.Update(msg)
			if next == nil {
				return nil
			}
			return next()
		}
	}
}

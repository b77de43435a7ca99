package dash

import (
	"testing"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// What is due only makes the dashboard read: the screen changes with the answer.
func TestWhatIsDueChangesNothingThatIsDrawn(t *testing.T) {
	d := begin(t, three, nil)
	screen := &frameLimiter{Model: d.model, Silent: onlyReads}
	for round := range 3 {
		d.take(store.Key{Subject: "calm"}, "fixed-window:100/1h", 1)
		d.now = d.now.Add(time.Second)
		d.run(second(screen.Update(clockTick{})))
		for _, due := range []tea.Msg{refreshDue{d.ticks}, denialsDue{}, overridesDue{}, passDue{d.feed.pass}} {
			before := d.View()
			_, cmd := screen.Update(due)
			if after := d.View(); after != before {
				t.Errorf("%T changes the screen from\n%s\nto\n%s", due, before, after)
			}
			if cmd == nil {
				continue
			}
			switch msg := cmd().(type) {
			case nil, tea.BatchMsg:
			default:
				d.run(second(screen.Update(msg)))
			}
			if got, want := screen.View(), d.View(); got != want {
				t.Errorf("round %d: after what %T brought the screen shows\n%s\nwant\n%s", round, due, got, want)
			}
		}
	}
}

func second(_ tea.Model, cmd tea.Cmd) tea.Cmd { return cmd }

package dash

import (
	"strings"
	"testing"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/limitctl/limitctl/internal/dash/live"
	"github.com/limitctl/limitctl/pkg/limiter/storetest"
)

// beginWithUnknown starts a dashboard of entries of which not all is known.
func beginWithUnknown(t *testing.T, entries storetest.Entries) *driver {
	t.Helper()
	d := begin(t, nil, func(o *live.Options) { o.Store = entries })
	d.send(tea.WindowSizeMsg{Width: 160, Height: 40})
	d.second()
	return d
}

// lineOf returns the words of the line about a key.
func lineOf(t *testing.T, d *driver, subject string) string {
	t.Helper()
	for line := range strings.Lines(d.View()) {
		words := strings.Fields(strings.Trim(line, " >*\n"))
		if len(words) > 0 && words[0] == subject {
			return strings.Join(words, " ")
		}
	}
	t.Fatalf("there is no line of %s:\n%s", subject, d.View())
	return ""
}

func TestListShowsWhatIsNotKnown(t *testing.T) {
	d := beginWithUnknown(t, storetest.NotAllKnown())
	for subject, want := range map[string]string{
		"whole": "10/10", "no-period": "9/10", "no-count": "8/?", "used-only": "7/?", "silent": "?/?",
	} {
		if line := lineOf(t, d, subject); !strings.Contains(line, " "+want+" ") {
			t.Errorf("the line of %s lacks %q: %s", subject, want, line)
		}
	}
	if atLimit := d.feed.Tally.AtLimit; atLimit != 1 {
		t.Errorf("%d are at the limit, want 1", atLimit)
	}
	d.press("<home>")
	if want := "[whole] no-period no-count silent used-only"; d.subjects() != want {
		t.Errorf("it shows %s, want %s", d.subjects(), want)
	}
}

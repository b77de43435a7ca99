package dash

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/limitctl/limitctl/cmd/internal/dash/followed"
	"github.com/limitctl/limitctl/cmd/internal/dash/source"
	"github.com/limitctl/limitctl/pkg/limiter/storetest"
)

// beginWithUnknown starts a dashboard of entries of which not all is known.
func beginWithUnknown(t *testing.T, entries storetest.Entries) *driver {
	t.Helper()
	d := begin(t, nil, func(o *Options) { o.Store = entries })
	d.send(tea.WindowSizeMsg{Width: 160, Height: 40})
	d.second()
	return d
}

// lineOf returns the words of the line about a key.
func lineOf(t *testing.T, d *driver, subject string) string {
	t.Helper()
	for line := range strings.Lines(d.View()) {
		words := strings.Fields(strings.Trim(line, " ▸>•*\n"))
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
		"whole": "10/10 0", "no-period": "9/10 1", "no-count": "8/? ?", "used-only": "7/? ?", "silent": "?/? ?",
	} {
		if line := lineOf(t, d, subject); !strings.Contains(line, " "+want+" ") {
			t.Errorf("the line of %s lacks %q: %s", subject, want, line)
		}
	}
	if atLimit, _ := d.atLimit(); atLimit != 1 {
		t.Errorf("%d are at the limit, want 1", atLimit)
	}
	inOrder := func() (subjects string) {
		for _, r := range d.keys.rows {
			subjects += r.Key.Subject + " "
		}
		return subjects
	}
	for by, want := range map[followed.Order]string{
		followed.ByUsed: "whole no-period no-count used-only silent ", followed.ByRemaining: "whole no-period no-count silent used-only ",
		followed.ByCloseness: "whole no-period no-count used-only silent ",
	} {
		d.keys.order = by
		d.arrange()
		if got := inOrder(); got != want {
			t.Errorf("%s: %s, want %s", by, got, want)
		}
	}
}

func TestFilterBySharesNeedsThemKnown(t *testing.T) {
	d := beginWithUnknown(t, storetest.NotAllKnown())
	for text, want := range map[string]int{">80%": 2, "<95%": 1, "<200%": 2, "": 5} {
		filter, err := followed.ParseFilter(text)
		if err != nil {
			t.Fatal(err)
		}
		d.filter.Filter = filter
		d.arrange()
		if len(d.keys.rows) != want {
			t.Errorf("%q keeps %d, want %d", text, len(d.keys.rows), want)
		}
	}
}

func TestDetailSaysWhatIsNotKnown(t *testing.T) {
	for _, e := range storetest.NotAllKnown() {
		if e.LimitKnown() {
			continue // of which the store is asked more
		}
		d := beginWithUnknown(t, storetest.NotAllKnown())
		for d.current().Key != e.Key {
			d.press("j")
		}
		d.press("t")
		if !strings.Contains(d.View(), "is not known, so nothing can be taken") {
			t.Errorf("taking of %s:\n%s", e.Key, d.View())
		}
		d.press("<enter>")
		d.second()
		want := map[string]string{"no-period": "fixed-window:10/?", "no-count": "8/? used", "used-only": "7/? used",
			"silent": "resets in     not known"}
		if text := d.View(); !strings.Contains(text, want[e.Key.Subject]) {
			t.Errorf("the page of %s lacks %q:\n%s", e.Key, want[e.Key.Subject], text)
		}
	}
}

// A document says what is not known by null.
func TestDocumentOfWhatIsNotKnown(t *testing.T) {
	for _, e := range storetest.NotAllKnown() {
		text, err := json.Marshal(source.Reading{Entry: e})
		if err != nil {
			t.Fatal(err)
		}
		if nulls := bytes.Count(text, []byte("null")); (nulls > 0) == e.LimitKnown() {
			t.Errorf("%s has %d nulls: %s", e.Key, nulls, text)
		}
		if e.LimitKnown() && !bytes.Contains(text, []byte(`"limit":"`+e.Limit.String()+`"`)) {
			t.Errorf("the limit of %s is not %v: %s", e.Key, e.Limit, text)
		}
	}
}

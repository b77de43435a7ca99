package dash

import (
	"strings"
	"testing"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/limitctl/limitctl/internal/dash/live"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// What is in force can be revoked and extended, also if no key of it is in use; the cursor stays with its override.
func TestWhatIsInForceCanBeChanged(t *testing.T) {
	d := governedBy(t, nil)
	d.press("O")
	d.View()
	d.send(tea.MouseMsg{X: 4, Y: len(head{d.model}.lines()) + 3, Action: tea.MouseActionPress, Button: tea.MouseButtonLeft})
	if text := d.View(); !strings.Contains(text, "> tenant:globex ") {
		t.Errorf("after a click:\n%s", text)
	}
	d.press("<home><pgdown><pgup><down>r")
	if text := d.View(); !strings.Contains(text, "Revoke user:$(rm -r ~)<b>é*, block") {
		t.Errorf("asked why:\n%s", text)
	}
	d.press("a mistake<enter>y")
	left := d.overrides()
	if len(left) != 4 {
		t.Fatalf("after a yes %d are in force", len(left))
	}
	for i := range left {
		if strings.HasPrefix(left[i].Subjects.String(), "user:") {
			t.Error("another one was revoked")
		}
	}
	d.press("<home>e") // the block of the network, for 2h more
	d.second()
	d.press("<enter><enter>y")
	for _, o := range d.overrides() {
		if o.Effect == store.OverrideBlock && !strings.Contains(d.View(), "set: block until 14:02") {
			t.Errorf("%s ends at %s:\n%s", o.Subjects, o.ExpiresAt, d.View())
		}
	}
}

// In a read-only context everything in force is seen and nothing changes; a protected one asks for its name.
func TestWhatIsInForceIsGuarded(t *testing.T) {
	d := governedBy(t, func(o *live.Options) { o.Actions = nil })
	d.press("Or")
	if text := d.View(); d.change.IsAsking() || !strings.Contains(text, "WHOM") {
		t.Errorf("read-only:\n%s", text)
	}
	d = governedBy(t, func(o *live.Options) { o.Context, o.Protected = "prod", true })
	d.press("Or<enter>y")
	if len(d.overrides()) != 5 || !d.change.IsAsking() {
		t.Errorf("a y was enough for a protected context; %d are in force", len(d.overrides()))
	}
	d.press("<esc>r<enter>prod<enter>")
	if len(d.overrides()) != 4 {
		t.Errorf("with its name typed %d are in force", len(d.overrides()))
	}
}

// What was denied before an override was set is not of it. A little that is denied since is not nothing.
func TestWhatANewOverrideDenies(t *testing.T) {
	d := begin(t, three, nil)
	for range 5 {
		d.deny(admin.Denials{Rows: []admin.Denied{deniedRow("full", 3)}})
		d.second()
	}
	set, err := d.store.SetOverride(t.Context(), store.Override{Effect: store.OverrideTimes, Thousandths: 2000}, 2*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	d.second()
	d.press("O")
	if e, text := live.Effects(d.feed)[set.ID], d.View(); e.Denied != 0 || e.Keys != 4 || !strings.Contains(text, " 4 keys") ||
		strings.Contains(text, "denies") {
		t.Errorf("it does %+v, and it says:\n%s", e, text)
	}
	d.deny(admin.Denials{Rows: []admin.Denied{deniedRow("full", 1)}})
	d.second()
	if e, text := live.Effects(d.feed)[set.ID], d.View(); e.Denied == 0 || !strings.Contains(text, " denies ") {
		t.Errorf("after a denial it does %+v, and it says:\n%s", e, text)
	}
}

// governedBy starts a dashboard of traffic under overrides.
func governedBy(t *testing.T, change func(*live.Options)) *driver {
	t.Helper()
	d := begin(t, nil, change)
	governed(d)
	return d
}

// The question says so if a pattern leaves the key under the cursor out.
func TestAPatternThatLeavesTheKeyOut(t *testing.T) {
	d := begin(t, three, nil)
	d.press("b<enter><bs><bs><bs><bs>ne*<enter><enter><enter><enter>")
	if text := d.View(); !strings.Contains(text, "It is NOT about full token-bucket/1m") ||
		!strings.Contains(text, "near token-bucket/1m") {
		t.Errorf("of a pattern that leaves the key out it says:\n%s", text)
	}
}

package dash

import (
	"strings"
	"testing"

	"github.com/limitctl/limitctl/internal/dash/live"
)

// What is in force can be revoked, also if no key of it is in use; the cursor stays with its override.
func TestWhatIsInForceCanBeChanged(t *testing.T) {
	d := governedBy(t, nil)
	d.press("O<home><pgdown><pgup><down>r")
	if text := d.View(); !strings.Contains(text, "End this override?") ||
		!strings.Contains(text, "for user:$(rm -r ~)<b>é*") {
		t.Errorf("asked:\n%s", text)
	}
	d.press("y")
	left := d.overrides()
	if len(left) != 4 {
		t.Fatalf("after a yes %d are in force", len(left))
	}
	for i := range left {
		if strings.HasPrefix(left[i].Subjects.String(), "user:") {
			t.Error("another one was revoked")
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
	d.press("Ory")
	if len(d.overrides()) != 5 || !d.change.IsAsking() {
		t.Errorf("a y was enough for a protected context; %d are in force", len(d.overrides()))
	}
	d.press("<esc>rprod<enter>")
	if len(d.overrides()) != 4 {
		t.Errorf("with its name typed %d are in force", len(d.overrides()))
	}
}

// governedBy starts a dashboard of traffic under overrides.
func governedBy(t *testing.T, change func(*live.Options)) *driver {
	t.Helper()
	d := begin(t, nil, change)
	governed(d)
	return d
}

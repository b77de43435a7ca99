package dash

import (
	"strings"
	"testing"
)

// What is in force can be revoked, also if no key of it is in use; the cursor stays with its override.
func TestWhatIsInForceCanBeChanged(t *testing.T) {
	d := begin(t, nil, nil)
	governed(d)
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

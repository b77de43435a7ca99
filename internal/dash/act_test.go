package dash

import (
	"errors"
	"strings"
	"testing"

	"github.com/limitctl/limitctl/internal/dash/live"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

func TestReset(t *testing.T) {
	for _, test := range []struct {
		keys, want string // what was reset
	}{
		{"ry", "full"}, {"r", ""}, {"rn", ""}, {"r<enter>", ""}, {"r<esc>", ""}, {"jry", "near"}, {"<enter>ry", "full"},
		{"g", ""}, {"g<enter>r", ""},
		{"/nobody<enter>ry", ""},
	} {
		d := begin(t, three, nil)
		d.press(test.keys)
		if got := d.actions.reset.Subject; got != test.want {
			t.Errorf("%q resets %q, want %q", test.keys, got, test.want)
		}
	}
	for _, key := range []string{"r", "b", "o"} {
		d := begin(t, three, nil)
		if d.press("/nobody<enter>" + key); !strings.Contains(d.View(), "no row is selected") {
			t.Errorf("%s without a row shows\n%s", key, d.View())
		}
	}
}

// What came under the cursor by itself just now is not what somebody meant: it is reset after a second r, or later.
func TestWhatHasJustComeUnderTheCursorIsNotReset(t *testing.T) {
	for _, test := range []struct {
		keys string
		wait int
		want string
	}{
		{keys: "ry"}, {keys: "rryy", want: "near"}, {keys: "ry", wait: 6, want: "near"},
		{keys: "b<enter><enter><enter><enter><enter>y"},
	} {
		d := begin(t, three, nil)
		for range 2 {
			d.deny(admin.Denials{Rows: []admin.Denied{deniedRow("near", 30)}})
			d.second()
		}
		if d.subjects() != "[near] full tenant:acme:user:7 calm" {
			t.Fatalf("it shows %s", d.subjects())
		}
		for range test.wait {
			d.second()
		}
		d.press(test.keys)
		if got := d.actions.reset.Subject; got != test.want || len(d.overrides()) > 0 {
			t.Errorf("%q after %d s resets %q, want %q", test.keys, test.wait, got, test.want)
		}
	}
}

// A protected context wants its name typed, also before an override ends.
func TestAProtectedContextWantsItsNameTyped(t *testing.T) {
	protected := func(o *live.Options) { o.Context, o.Protected = "prod", true }
	for keys, want := range map[string]bool{"ry<enter>": false, "rprod<enter>": true, "rprod": false,
		"rpro<enter>": false, "rprod<esc>": false} {
		d := begin(t, three, protected)
		d.press(keys)
		if got := d.actions.reset != (store.Key{}); got != want {
			t.Errorf("%q resets: %t, want %t", keys, got, want)
		}
		d = begin(t, governed, protected)
		d.press("O" + keys)
		if got := len(d.overrides()) == 4; got != want {
			t.Errorf("%q ends an override: %t, want %t", keys, got, want)
		}
	}
}

// In a read-only context everything in force is seen, and nothing changes.
func TestAReadOnlyContextHasNoActions(t *testing.T) {
	d := begin(t, governed, func(o *live.Options) { o.Actions = nil })
	for _, keys := range []string{"robeu", "Or"} {
		d.press(keys)
		if d.change.IsAsking() || d.change.IsActing() {
			t.Errorf("%s did something", keys)
		}
	}
	if !strings.Contains(d.View(), "WHOM") {
		t.Errorf("in force:\n%s", d.View())
	}
	d = begin(t, three, func(o *live.Options) { o.Actions = nil })
	if d.press("?"); strings.Contains(d.View(), "override") {
		t.Error("the help offers a reset")
	}
}

// What is reset is seen to be empty, and what was brought back to be there again; what was used since is left, and
// said.
func TestResetIsSeenAndUndone(t *testing.T) {
	d := begin(t, three, nil)
	if d.press("rn"); !strings.Contains(d.View(), "nothing was changed") {
		t.Errorf("after a no:\n%s", d.View())
	}
	for range 4 {
		d.second()
	}
	if strings.Contains(d.View(), "nothing was changed") {
		t.Errorf("long after a no:\n%s", d.View())
	}
	d = begin(t, three, nil)
	d.press("jry")
	if r := d.list.Current(); r == nil || r.Key.Subject != "near" || r.InUse ||
		!strings.Contains(d.View(), "deleted 1 key") {
		t.Errorf("after the reset:\n%s", d.View())
	}
	d.press("u")
	if !strings.Contains(d.box(), "Bring back 1 key?") {
		t.Errorf("asked to undo:\n%s", d.View())
	}
	d.press("y")
	if !strings.Contains(d.View(), "brought back 1 key") {
		t.Errorf("undone:\n%s", d.View())
	}
	d.press("u")
	if !strings.Contains(d.View(), "nothing was reset from here yet") {
		t.Errorf("undone twice:\n%s", d.View())
	}
	d.actions.inUse = 1
	if d.press("ryuy"); !strings.Contains(d.View(), "1 used since: `limitctl undo --replace`") {
		t.Errorf("undone:\n%s", d.View())
	}
}

// That nothing was in use does not make an undo that of an older reset.
func TestUndoAfterAResetOfNothing(t *testing.T) {
	d := begin(t, three, nil)
	first := d.feed.Listed[0].Key
	d.press("ry")
	d.actions.nothing = true
	d.press("jry")
	if text := d.View(); strings.Contains(text, "u brings back") {
		t.Errorf("after a reset of nothing:\n%s", text)
	}
	if d.press("u"); !strings.Contains(d.View(), first.String()) {
		t.Errorf("it does not say that it is %v:\n%s", first, d.View())
	}
}

// What went wrong is said, and ends no program in the middle of a screen. What was deleted before a failure is said
// first: the error may be longer than the line.
func TestActionsThatFail(t *testing.T) {
	for want, c := range map[string]struct {
		keys string
		fail func(*fakeActions)
	}{
		"only 2 keys certainly deleted; u brings them back: gone": {"ry", func(a *fakeActions) {
			a.partly, a.err = live.Changed{Keys: 2, Backup: "/backups/1.jsonl"}, errors.New(strings.Repeat("gone ", 40))
		}},
		"internal error: ": {"ry", func(a *fakeActions) { a.store = nil }},
		"the store said no": {"b<enter><enter><enter><enter><enter>y", func(a *fakeActions) {
			a.err = errors.New("the store said no")
		}},
	} {
		d := begin(t, three, nil)
		c.fail(d.actions)
		if d.press(c.keys); !strings.Contains(d.View(), want) || d.change.IsActing() {
			t.Errorf("it does not say %q:\n%s", want, d.View())
		}
	}
}

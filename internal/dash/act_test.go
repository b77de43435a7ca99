package dash

import (
	"bytes"
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	"github.com/limitctl/limitctl/internal/dash/live"
	"github.com/limitctl/limitctl/internal/hostiletext"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

func TestReset(t *testing.T) {
	for _, test := range []struct {
		keys, want string // what was reset
	}{
		{"ry", "full"}, {"r", ""}, {"rn", ""}, {"r<enter>", ""}, {"r<esc>", ""}, {"jry", "near"}, {"mmry",
			"full near"}, {"<enter>ry", "full"}, {"g", ""}, {"g<enter>r", ""},
		{"/nobody<enter>ry", ""},
	} {
		d := begin(t, three, nil)
		d.press(test.keys)
		var got []string
		for _, key := range d.actions.reset {
			got = append(got, key.Subject)
		}
		if strings.Join(got, " ") != test.want {
			t.Errorf("%q resets %q, want %q", test.keys, got, test.want)
		}
	}
}

func TestAProtectedContextWantsItsNameTyped(t *testing.T) {
	for keys, want := range map[string]bool{"ry<enter>": false, "rprod<enter>": true, "rprod": false, "rpro<enter>": false,
		"rprod<esc>": false} {
		d := begin(t, three, func(o *live.Options) { o.Context, o.Protected = "prod", true })
		d.press(keys)
		if got := d.actions.reset != nil; got != want {
			t.Errorf("%q resets: %t, want %t", keys, got, want)
		}
	}
	d := begin(t, three, func(o *live.Options) { o.Context, o.Protected = "prod", true })
	d.press("<end>t")
	if !d.change.IsAsking() {
		t.Error("it takes without asking")
	}
}

func TestAReadOnlyContextHasNoActions(t *testing.T) {
	d := begin(t, three, func(o *live.Options) { o.Actions = nil })
	d.press("mrtu")
	if d.change.IsAsking() || len(d.list.Marked) > 0 || d.change.IsActing() {
		t.Error("something was done")
	}
	d.press("?")
	if strings.Contains(d.View(), "override") {
		t.Error("the help offers a reset")
	}
}

// What is reset is seen to be empty, and what was brought back to be there again.
func TestResetIsSeenAndUndone(t *testing.T) {
	d := begin(t, three, nil)
	d.press("jry")
	if r := d.list.Current(); r == nil || r.Key.Subject != "near" || r.InUse || !strings.Contains(d.View(), "deleted 1 key") {
		t.Errorf("after the reset:\n%s", d.View())
	}
	if want := "full [near] tenant:acme:user:7 calm"; d.subjects() != want {
		t.Errorf("after the reset it shows %s, want %s", d.subjects(), want)
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
}

// A key that was used since is brought back only if that is said once more.
func TestUndoOfWhatWasUsedSince(t *testing.T) {
	d := begin(t, three, nil)
	d.actions.inUse = 1
	d.press("ryuy")
	if !strings.Contains(d.View(), "1 used since and left") {
		t.Errorf("undone:\n%s", d.View())
	}
	d.press("u")
	if !strings.Contains(d.View(), "What was used since the reset is lost.") {
		t.Errorf("asked again:\n%s", d.View())
	}
	d.press("yu")
	if !strings.Contains(d.View(), "nothing was reset from here yet") {
		t.Errorf("undone again:\n%s", d.View())
	}
}

// A bug in what goes on beside the loop does not end the program in the middle of a
// screen.
func TestPanicsBesideTheLoop(t *testing.T) {
	d := begin(t, three, nil)
	d.actions.store = nil
	d.press("ry")
	if text := d.View(); !strings.Contains(text, "internal error: ") || d.change.IsActing() {
		t.Errorf("after a panic of an action:\n%s", text)
	}
}

func TestTake(t *testing.T) {
	d := begin(t, three, nil)
	d.press("t")
	if !strings.Contains(d.View(), "denied: full token-bucket/1m has nothing left, retry in 6s") {
		t.Errorf("of a full one:\n%s", d.View())
	}
	d.press("jt")
	if !strings.Contains(d.View(), "allowed: took 1 of near token-bucket/1m, 0 remaining") || !d.current().AtLimit() {
		t.Errorf("of one with room:\n%s", d.View())
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

// An undo names what was reset, and not what was marked since.
func TestUndoNamesWhatWasReset(t *testing.T) {
	d := begin(t, three, nil)
	d.press("ryjmu")
	if box := d.box(); len(d.list.Marked) != 1 || !strings.Contains(box, "full token-bucket/1m") || strings.Contains(box, "near") ||
		!strings.Contains(box, "Backup: /backups/1.jsonl") {
		t.Errorf("of full it asks:\n%s", box)
	}
}

// Marks end with the reset that they were for, also if nothing of it was in use.
func TestMarksEndWithTheReset(t *testing.T) {
	for _, nothing := range []bool{true, false} {
		d := begin(t, three, nil)
		d.actions.nothing = nothing
		d.press("mry")
		if len(d.actions.reset) != 1 || len(d.list.Marked) > 0 {
			t.Errorf("nothing in use: %t; %v were reset, and %d are marked", nothing, d.actions.reset, len(d.list.Marked))
		}
	}
}

// What was deleted before a failure is said first: the error may be longer than the line.
func TestAResetThatFailsInTheMiddle(t *testing.T) {
	d := begin(t, three, nil)
	d.actions.partly, d.actions.err = live.Changed{Keys: 2, Backup: "/backups/1.jsonl"}, errors.New(strings.Repeat("gone ", 40))
	d.press("ry")
	if text := d.View(); !strings.Contains(text, "only 2 keys certainly deleted; u brings them back: gone") {
		t.Errorf("after a failure in the middle:\n%s", text)
	}
}

// What a filter hides is not reset, and that is said.
func TestMarksThatAreHiddenAreLeft(t *testing.T) {
	d := begin(t, three, nil)
	d.press("mm/near<enter>r") // full and near are marked
	if text := d.View(); !strings.Contains(text, "Delete 1 key?") || !strings.Contains(text, "1 key is marked too, but not listed now.") {
		t.Errorf("asked:\n%s", text)
	}
	d.press("y<esc>")
	full := store.Key{Subject: "full", Name: "token-bucket/1m"}
	if len(d.actions.reset) != 1 || d.actions.reset[0].Subject != "near" || !d.list.Marked[live.OwnID(full)] {
		t.Errorf("reset were %v, marked are %v", d.actions.reset, len(d.list.Marked))
	}
	d = begin(t, three, nil)
	if d.press("mm/calm<enter>ry"); d.actions.reset != nil || !strings.Contains(d.View(), "2 keys are marked, but not listed now") {
		t.Errorf("reset were %v:\n%s", d.actions.reset, d.View())
	}
}

// y copies the commands about a key in turn, from the first one for another key.
func TestCopyCommands(t *testing.T) {
	d := begin(t, three, func(o *live.Options) {
		o.Commands = func(e *admin.Entry) []string { return []string{"check " + e.Key.Subject, "block " + e.Key.Subject} }
	})
	var terminal bytes.Buffer
	d.change.Clipboard = &terminal
	for _, step := range []struct{ keys, want, says string }{
		{"/full<enter>y", "check full", "copied (y again: the next) check full"}, {"y", "block full", "block full"},
		{"y", "check full", ""}, {"<esc>/near<enter>y", "check near", "copied (y again: the next) check near"},
	} {
		terminal.Reset()
		d.press(step.keys)
		want := "\x1b]52;c;" + base64.StdEncoding.EncodeToString([]byte(step.want)) + "\a"
		if terminal.String() != want || !strings.Contains(d.View(), step.says) {
			t.Errorf("%s: %q, want %q, and\n%s", step.keys, terminal.String(), want, d.View())
		}
	}
}

// A subject is copied as it is, and nothing of it is obeyed.
func TestCopyASubject(t *testing.T) {
	for _, subject := range append(hostiletext.Subjects(), "user:7") {
		d := begin(t, func(d *driver) { d.take(store.Key{Subject: subject}, "10/1h", 1) }, func(o *live.Options) { o.Tmux = true })
		var terminal bytes.Buffer
		d.change.Clipboard = &terminal
		d.press("c")
		want := "\x1b]52;c;" + base64.StdEncoding.EncodeToString([]byte(subject)) + "\a"
		if want += "\x1bPtmux;\x1b" + want + "\x1b\\"; terminal.String() != want {
			t.Errorf("for %q the terminal gets %q, want %q", subject, terminal.String(), want)
		}
	}
}

package cmd

import (
	"context"
	"fmt"
	"strings"
	"testing"
)

// A terminal gets a screenful or two, and how many more there are. What goes to a program
// is never cut.
func TestATerminalGetsTheFirstRows(t *testing.T) {
	const terminalRows = 100
	w := newWorld(t)
	for hours := 1; hours <= terminalRows+5; hours++ {
		w.run(t, exitYes, "consume", "u", "--limit", fmt.Sprintf("10/%dh", hours))
	}
	rows := func(args ...string) (rows int, note string) {
		w.out.Reset()
		w.err.Reset()
		if code := Run(context.Background(), append([]string{"inspect", "*"}, args...), w.Env); code != exitYes {
			t.Errorf("%q: exit code %d", args, code)
		}
		return strings.Count(w.out.String(), "/"), w.err.String()
	}
	perRow := strings.Count("token-bucket/1h 10/1h 1/10", "/")
	w.OutIsTerminal = true
	w.Size = func() (int, int) { return 200, 30 }
	want := fmt.Sprintf("limitctl: %d of %d keys shown; --limit-rows N shows more\n", terminalRows, terminalRows+5)
	if n, note := rows(); n != perRow*terminalRows || note != want {
		t.Errorf("%d slashes in the rows, want %d; and the note is %q, want %q", n, perRow*terminalRows, note, want)
	}
	if n, note := rows("--limit-rows", "1000"); n != perRow*(terminalRows+5) || note != "" {
		t.Errorf("with --limit-rows 1000 there are %d, %q", n, note)
	}
	if n, note := rows("--limit-rows", "3"); n != 3*perRow || !strings.Contains(note, "3 of 105 keys shown") {
		t.Errorf("with --limit-rows 3 there are %d, %q", n, note)
	}
	w.OutIsTerminal = false
	if n, note := rows(); n != perRow*(terminalRows+5) || note != "" {
		t.Errorf("into a pipe there are %d, %q", n, note)
	}
}

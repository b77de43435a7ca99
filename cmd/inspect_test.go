package cmd

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/clitest"
)

// Where there is no room for all limits of a summary, its last line is still that of
// all keys, and the head says how many are left out.
func TestWatchedSummaryFitsTheTerminal(t *testing.T) {
	w := newWorld(t)
	for hours := 1; hours <= 20; hours++ {
		w.run(t, exitYes, "consume", "u", "--limit", fmt.Sprintf("10/%dh", hours))
	}
	w.OutIsTerminal = true
	for rows, want := range map[int]string{9: "20 keys, 4 of 20 limits", 60: "20 keys  (Ctrl-C ends)"} {
		w.Size = func() (int, int) { return 80, rows }
		ctx, interrupt := context.WithCancel(context.Background())
		w.Sleep = func(ctx context.Context, _ time.Duration) error {
			interrupt()
			return ctx.Err()
		}
		w.out.Reset()
		if code := Run(ctx, []string{"inspect", "*", "--summary", "--watch"}, w.Env); code != exitYes {
			t.Errorf("exit code %d", code)
		}
		frame := w.out.String()
		lines := strings.Split(strings.TrimSuffix(frame[:strings.LastIndex(frame, "\r\n")], "\r\n"), "\r\n")
		if len(lines) >= rows || !strings.Contains(lines[0], want) || !strings.HasPrefix(clitest.Strip(lines[len(lines)-1]), "all ") {
			t.Errorf("on %d lines, wanting %q:\n%s", rows, want, frame)
		}
	}
}

// On a terminal, too, who asks for lines gets lines.
func TestWatchAsLinesOnATerminal(t *testing.T) {
	w := newWorld(t)
	w.run(t, exitYes, "consume", "u", "--limit", "10/1h")
	w.OutIsTerminal = true
	ctx, interrupt := context.WithCancel(context.Background())
	w.Sleep = func(ctx context.Context, _ time.Duration) error {
		interrupt()
		return ctx.Err()
	}
	w.out.Reset()
	Run(ctx, []string{"inspect", "u", "--watch", "-o", "jsonl"}, w.Env)
	if text := w.out.String(); !strings.HasPrefix(text, `{"time":`) || strings.Contains(text, "\x1b") {
		t.Errorf("it prints %q", text)
	}
}

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
	want := fmt.Sprintf("limitctl: %d of %d keys shown; add --all for all, or --limit-rows N\n", terminalRows, terminalRows+5)
	if n, note := rows(); n != perRow*terminalRows || note != want {
		t.Errorf("%d slashes in the rows, want %d; and the note is %q, want %q", n, perRow*terminalRows, note, want)
	}
	if n, note := rows("--all"); n != perRow*(terminalRows+5) || note != "" {
		t.Errorf("with --all there are %d, %q", n, note)
	}
	if n, note := rows("--limit-rows", "3"); n != 3*perRow || !strings.Contains(note, "3 of 105 keys shown") {
		t.Errorf("with --limit-rows 3 there are %d, %q", n, note)
	}
	w.OutIsTerminal = false
	if n, note := rows(); n != perRow*(terminalRows+5) || note != "" {
		t.Errorf("into a pipe there are %d, %q", n, note)
	}
}

func TestStuckNeedsALayout(t *testing.T) {
	w := newWorld(t)
	for _, args := range [][]string{{"inspect", "*", "--stuck"}, {"reset", "*", "--stuck", "--yes"}} {
		w.run(t, exitUsage, args...)
		if text := w.err.String(); !strings.Contains(text, "--stuck finds defects of other limiters' keys; add --layout NAME, "+
			"or --layout auto") {
			t.Errorf("%q says %q", args, text)
		}
	}
}

package cmd

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"
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
		if len(lines) >= rows || !strings.Contains(lines[0], want) || !strings.HasPrefix(strip(lines[len(lines)-1]), "all ") {
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

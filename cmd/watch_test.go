package cmd

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mattn/go-runewidth"
)

// watched runs a command with --watch until it has looked three times; between looks
// it does what between says.
func watched(t *testing.T, w *world, between func(look int), args ...string) (stdout string) {
	t.Helper()
	ctx, interrupt := context.WithCancel(context.Background())
	defer interrupt()
	looks := 0
	w.Sleep = func(ctx context.Context, d time.Duration) error {
		w.slept = append(w.slept, d)
		if looks++; looks == 3 {
			interrupt()
		}
		between(looks)
		return ctx.Err()
	}
	w.out.Reset()
	if code := Run(ctx, args, w.Env); code != exitInterrupted {
		t.Fatalf("%q: exit code %d, want %d\n%s", args, code, exitInterrupted, &w.err)
	}
	return w.out.String()
}

func TestWatchRedrawsATerminal(t *testing.T) {
	w := newWorld(t)
	for i := range 30 {
		w.run(t, exitYes, "consume", fmt.Sprintf("tenant:日本語:user:%d", i), "--limit", "10/1h", "--cost", "5")
	}
	w.OutIsTerminal = true
	w.Size = func() (int, int) { return 40, 10 }
	for _, args := range [][]string{{"inspect", "*", "--watch"}, {"check", "tenant:日本語:user:1", "--limit", "10/1h", "--watch=5s"}} {
		w.slept = nil
		frames := strings.Split(watched(t, w, func(int) {}, args...), "\x1b[H")
		if len(frames) != 4 || !strings.HasPrefix(frames[0], "\x1b[?25l") || !strings.HasSuffix(frames[3], "\x1b[?25h\x1b[J") {
			t.Fatalf("%q draws %d frames: %q", args, len(frames)-1, frames)
		}
		if want := map[string]time.Duration{"inspect": 2 * time.Second, "check": 5 * time.Second}[args[0]]; w.slept[0] != want {
			t.Errorf("%q waits %s, want %s", args, w.slept[0], want)
		}
		for _, frame := range frames[1:] {
			lines := strings.Split(strings.TrimSuffix(frame, "\x1b[?25h\x1b[J"), "\r\n")
			if len(lines) > 10 {
				t.Errorf("%q: a frame of %d lines on a terminal of 10", args, len(lines))
			}
			for _, line := range lines[:len(lines)-1] {
				if !strings.HasSuffix(line, "\x1b[K") || runewidth.StringWidth(strip(strings.TrimSuffix(line, "\x1b[K"))) > 40 {
					t.Errorf("%q: a line too long, or over an old one: %q", args, line)
				}
			}
		}
	}
}

func TestWatchWritesLinesIntoAPipe(t *testing.T) {
	w := newWorld(t)
	w.run(t, exitYes, "consume", "a", "--limit", "10/1h")
	lines := strings.Split(strings.TrimSpace(watched(t, w, func(look int) {
		if look == 1 {
			code := Run(context.Background(), []string{"consume", "-q", "b", "--limit", "10/1h"}, &Env{
				In: w.In, Out: &w.err, Err: &w.err, Getenv: w.Getenv, ReadFile: w.ReadFile, Now: w.Now, Sleep: w.Sleep, Size: w.Size, Hold: w.Hold})
			if code != exitYes {
				t.Errorf("exit code %d", code)
			}
		}
	}, "inspect", "*", "--watch=1s", "--sort", "key")), "\n")
	var keys []string
	for _, line := range lines {
		var document struct {
			Time time.Time
			Key  string
		}
		if err := json.Unmarshal([]byte(line), &document); err != nil || document.Time.IsZero() {
			t.Errorf("%v: %s", err, line)
		}
		keys = append(keys, document.Key)
	}
	if got := strings.Join(keys, " "); got != "a a b a b" {
		t.Errorf("three looks show %s", got)
	}
}

func TestWatchOutlivesAnOutage(t *testing.T) {
	w := newWorld(t)
	w.OutIsTerminal = true
	w.Size = func() (int, int) { return 60, 10 }
	frames := strings.Split(watched(t, w, func(int) {}, "inspect", "*", "--watch", "--store", "redis://127.0.0.1:1"), "\x1b[H")
	if len(frames) != 4 || !strings.Contains(frames[3], "no answer") || !strings.Contains(frames[3], "store unavailable") {
		t.Errorf("without a server: %q", frames)
	}
	w.OutIsTerminal = false
	if stdout := watched(t, w, func(int) {}, "inspect", "*", "--watch", "--store", "redis://127.0.0.1:1"); stdout != "" ||
		strings.Count(w.err.String(), "store unavailable") < 3 {
		t.Errorf("without a server: %q, %q", stdout, &w.err)
	}
	w.run(t, exitUsage, "inspect", "*", "--watch=soon")
	w.run(t, exitUsage, "check", "a", "--limit", "1/1h", "--watch=1ms")
}

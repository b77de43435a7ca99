package cmd

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mattn/go-runewidth"

	"github.com/limitctl/limitctl/cmd/internal/cli"
	"github.com/limitctl/limitctl/cmd/internal/clitest"
	"github.com/limitctl/limitctl/internal/redistest"
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
	if code := Run(ctx, args, w.Env); code != exitYes || strings.Contains(w.err.String(), "interrupted") {
		t.Fatalf("%q: exit code %d, want %d\n%s", args, code, exitYes, &w.err)
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
				if !strings.HasSuffix(line, "\x1b[K") || runewidth.StringWidth(clitest.Strip(strings.TrimSuffix(line, "\x1b[K"))) > 40 {
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
			code := Run(context.Background(), []string{"consume", "-q", "b", "--limit", "10/1h"}, &cli.Env{
				In: w.In, Out: &w.err, Err: &w.err, Getenv: w.Getenv, Environ: w.Environ, ReadFile: w.ReadFile, Now: w.Now, Sleep: w.Sleep,
				Size: w.Size, Hold: w.Hold})
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
	stdout := watched(t, w, func(int) {}, "inspect", "*", "--watch", "--store", "redis://127.0.0.1:1")
	if strings.Count(w.err.String(), "store unavailable") != 3 ||
		strings.Count(stdout, `,"schema_version":1,"error":{"kind":"store_away","message":"store unavailable: `) != 3 {
		t.Errorf("without a server: %q, %q", stdout, &w.err)
	}
	w.run(t, exitUsage, "inspect", "*", "--watch=soon")
	w.run(t, exitUsage, "check", "a", "--limit", "1/1h", "--watch=1ms")
}

// In a stall the last good table stays, with since when and why there is no answer.
func TestWatchKeepsTheLastGoodTable(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	w := newWorld(t)
	w.OutIsTerminal = true
	w.Size = func() (int, int) { return 100, 12 }
	store := "redis://" + server.Addr
	w.run(t, exitYes, "consume", "user:1", "--limit", "10/1h", "--store", store)
	for _, args := range [][]string{
		{"inspect", "*", "--watch", "--store", store},
		{"inspect", "*", "--summary", "--watch", "--store", store},
		{"check", "user:1", "--limit", "10/1h", "--watch", "--store", store},
	} {
		var frames []string
		for timeout := 200 * time.Millisecond; timeout < patience; timeout *= 4 { // until the other two looks are in time
			frames = strings.Split(watched(t, w, func(look int) {
				switch look {
				case 1:
					server.Pause()
				case 2:
					server.Resume()
				}
			}, append(args, "--timeout", timeout.String())...), "\x1b[H")
			if !strings.Contains(frames[1]+frames[3], "no answer since ") {
				break
			}
		}
		good, stalled, after := strings.Split(frames[1], "\r\n"), strings.Split(frames[2], "\r\n"), strings.Split(frames[3], "\r\n")
		if !strings.Contains(stalled[0], "as of ") || !strings.Contains(stalled[1], "no answer since ") ||
			!strings.Contains(stalled[1], server.Addr) {
			t.Errorf("%q: a stall is told as %q", args, stalled[:2])
		}
		if slices.Compare(good[2:], stalled[2:]) != 0 || len(good) < 4 {
			t.Errorf("%q: in a stall there is\n%q\nafter\n%q", args, stalled[2:], good[2:])
		}
		if strings.Contains(after[0], "as of ") || after[1] != "\x1b[K" {
			t.Errorf("%q: after a stall there is %q", args, after[:2])
		}
	}
}

// With one master of a Cluster away, what the others have is looked at anew.
func TestWatchGoesOnWithAPart(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, "--cluster-node-timeout", "600000")
	w := newWorld(t)
	w.OutIsTerminal = true
	w.Size = func() (int, int) { return 160, 12 }
	store := "redis+cluster://" + strings.Join(cluster.Addrs(), ",")
	w.run(t, exitYes, "consume", "user:1", "--limit", "10/1h", "--store", store) // of the second master
	w.run(t, exitYes, "consume", "user:3", "--limit", "10/1h", "--store", store) // of the first
	var frames []string
	for timeout := 300 * time.Millisecond; timeout < patience; timeout *= 4 { // until the others are in time
		frames = strings.Split(watched(t, w, func(look int) {
			if look == 1 {
				cluster.Masters[1].Pause()
			}
		}, "inspect", "*", "--watch", "--timeout", timeout.String(), "--store", store), "\x1b[H")
		cluster.Masters[1].Resume()
		if !strings.Contains(strings.Join(frames, ""), cluster.Masters[0].Addr) {
			break
		}
	}
	lines := strings.Split(frames[3], "\r\n")
	if !strings.Contains(lines[1], "incomplete since ") || !strings.Contains(lines[1], cluster.Masters[1].Addr) {
		t.Errorf("it says %q", lines[1])
	}
	if rows := strings.Join(lines[2:], "\n"); !strings.Contains(rows, "user:3") || strings.Contains(rows, "user:1") {
		t.Errorf("it shows\n%s", rows)
	}
	if strings.Count(strings.Join(frames, ""), cluster.Masters[0].Addr) > 0 {
		t.Error("a healthy node is blamed")
	}
}

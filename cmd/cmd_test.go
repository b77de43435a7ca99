package cmd

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"math"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/mattn/go-runewidth"
	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/clitest"
	"github.com/limitctl/limitctl/internal/outcome"
)

// The exit codes, which scripts rely on.
const (
	exitYes         = outcome.ExitYes
	exitNo          = outcome.ExitNo
	exitUsage       = outcome.ExitUsage
	exitUnreachable = outcome.ExitUnreachable
	exitRefused     = outcome.ExitRefused
	exitPartly      = outcome.ExitPartly
	exitInterrupted = outcome.ExitInterrupted
)

// world is an Env in memory, whose clock Sleep moves.
type world struct {
	*cli.Env
	out, err bytes.Buffer
	now      time.Time
	slept    []time.Duration
}

func newWorld(t *testing.T) *world {
	debug.SetMemoryLimit(math.MaxInt64) // a load test limits the memory of its process, which here is that of all tests
	w := &world{now: time.Now()}
	w.Env = clitest.Env(t)
	w.Out, w.Err = &w.out, &w.err
	w.Now = func() time.Time { return w.now }
	w.Sleep = func(ctx context.Context, d time.Duration) error {
		w.slept = append(w.slept, d)
		w.now = w.now.Add(d)
		return ctx.Err()
	}
	w.Timeout = patience
	return w
}

// run runs limitctl and wants that exit code.
func (w *world) run(t *testing.T, want int, args ...string) (stdout, stderr string) {
	t.Helper()
	w.out.Reset()
	w.err.Reset()
	if got := Run(context.Background(), args, w.Env); got != want {
		t.Fatalf("limitctl %q: exit code %d, want %d\n%s%s", args, got, want, &w.out, &w.err)
	}
	return w.out.String(), w.err.String()
}

func TestInterruptAtThePrompt(t *testing.T) {
	w := newWorld(t)
	w.InIsTerminal = true
	w.run(t, exitYes, "consume", "user:42", "--limit", "3/1h")
	ctx, interrupt := context.WithCancel(context.Background())
	w.In, _ = io.Pipe() // nobody answers
	w.Err = writerFunc(func(p []byte) (int, error) {
		if bytes.Contains(p, []byte("[y/N]")) {
			interrupt()
		}
		return w.err.Write(p)
	})
	if code := Run(ctx, []string{"reset", "user:42"}, w.Env); code != exitInterrupted {
		t.Errorf("exit code %d, want %d", code, exitInterrupted)
	}
	if !strings.HasSuffix(w.err.String(), "\nlimitctl: interrupted: nothing was changed\n") {
		t.Errorf("it says %q", w.err.String())
	}
	w.Err = &w.err
	if stdout, _ := w.run(t, exitYes, "check", "user:42", "--limit", "3/1h"); !strings.Contains(stdout, "1 of 3 used") {
		t.Errorf("after an interrupt: %s", stdout)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestWaitSleepsForTheStatedTime(t *testing.T) {
	w := newWorld(t)
	w.run(t, exitYes, "consume", "u", "--limit", "1/1h")
	// Its clock is the test's, the store's is not: it stays denied, and the
	// waiting ends with its patience.
	_, stderr := w.run(t, exitNo, "consume", "u", "--limit", "1/1h", "--wait=90m")
	if len(w.slept) != 1 || w.slept[0] < 59*time.Minute || w.slept[0] > time.Hour {
		t.Errorf("it slept %v, want once for an hour", w.slept)
	}
	if !strings.Contains(stderr, "limitctl: waiting ") || !strings.Contains(stderr, " for a turn\n") {
		t.Errorf("it says %q", stderr)
	}
	w.slept = nil
	w.run(t, exitYes, "consume", "v", "--limit", "leaky-bucket:10/1h", "--cost", "3")
	w.run(t, exitYes, "consume", "v", "--limit", "leaky-bucket:10/1h", "--wait")
	if len(w.slept) != 1 || w.slept[0] < 17*time.Minute || w.slept[0] > 18*time.Minute {
		t.Errorf("it slept %v, want the delay of 18 minutes", w.slept)
	}
}

// Colours come only on a terminal that wants them.
func TestInspectHasColours(t *testing.T) {
	w := newWorld(t)
	w.run(t, exitYes, "consume", "u", "--limit", "3/1h")
	getenv := w.Getenv
	for _, test := range []struct {
		variables        map[string]string
		terminal, colors bool
	}{
		{map[string]string{"NO_COLOR": "1"}, true, false},
		{map[string]string{"NO_COLOR": "1", "FORCE_COLOR": "1", "CLICOLOR_FORCE": "1"}, true, false},
		{map[string]string{"TERM": "dumb"}, true, false},
		{map[string]string{"CLICOLOR": "0"}, true, false},
		{map[string]string{"CLICOLOR": "0", "CLICOLOR_FORCE": "1"}, true, true},
		{map[string]string{"CLICOLOR": "1"}, true, true},
		{map[string]string{"TERM": "dumb", "FORCE_COLOR": "3"}, true, true},
		{nil, false, false},
		{map[string]string{"FORCE_COLOR": "true"}, false, true},
		{map[string]string{"CLICOLOR_FORCE": "1"}, false, true},
		{map[string]string{"FORCE_COLOR": "0", "CLICOLOR_FORCE": "false"}, false, false},
	} {
		w.OutIsTerminal = test.terminal
		w.Getenv = func(name string) string { return cmp.Or(test.variables[name], getenv(name)) }
		if table, _ := w.run(t, exitYes, "inspect", "*"); strings.Contains(table, "\x1b[") != test.colors {
			t.Errorf("%v, on a terminal %t, colours wanted %t:\n%s", test.variables, test.terminal, test.colors, table)
		}
	}
	w.Getenv = func(name string) string { return cmp.Or(map[string]string{"FORCE_COLOR": "1"}[name], getenv(name)) }
	if document, _ := w.run(t, exitYes, "inspect", "*", "-o", "json"); strings.Contains(document, "\x1b") {
		t.Errorf("a document has colours:\n%s", document)
	}
}

// A turn that is not waited for is given back, and one that would come too late
// is not taken.
func TestALeakyBucketsTurnIsNotLost(t *testing.T) {
	w := newWorld(t)
	limit := "leaky-bucket:10/1h"
	w.run(t, exitYes, "consume", "u", "--limit", limit)
	before, _ := w.run(t, exitYes, "inspect", "u", "-o", "csv")
	w.run(t, exitNo, "consume", "u", "--limit", "leaky-bucket:11/1h,burst=20", "--wait=1s")
	after, _ := w.run(t, exitYes, "inspect", "u", "-o", "csv")
	if field := func(text string) string { return strings.Join(strings.Split(text, ",")[:9], ",") }; field(
		before) != field(after) {
		t.Errorf("a turn too late changed the key from\n%s to\n%s", before, after)
	}
	ctx, interrupt := context.WithCancel(context.Background())
	w.Sleep = func(ctx context.Context, d time.Duration) error {
		interrupt()
		return ctx.Err()
	}
	if code := Run(ctx, []string{"consume", "u", "--limit", limit, "--wait"}, w.Env); code != exitInterrupted {
		t.Errorf("exit code %d, want %d", code, exitInterrupted)
	}
	if stdout, _ := w.run(t, exitYes, "check", "u", "--limit", limit); !strings.Contains(stdout, "1 of 10 used") {
		t.Errorf("after an interrupt: %s", stdout)
	}
}

// The prose of every help fits a terminal of 80 columns; flags and examples may be wider.
func TestHelpFitsTheTerminal(t *testing.T) {
	var look func(cmd *cobra.Command)
	look = func(cmd *cobra.Command) {
		for line := range strings.Lines(cmd.Long) {
			if line = strings.TrimSuffix(line, "\n"); runewidth.StringWidth(line) > 80 {
				t.Errorf("`%s --help` has a line of %d columns: %s", cmd.CommandPath(), runewidth.StringWidth(line),
					line)
			}
		}
		for _, sub := range cmd.Commands() {
			look(sub)
		}
	}
	look(newRootCmd(&cli.Globals{Env: newWorld(t).Env}))
}

// However narrow the terminal, the audit says at what time something was done, and what.
func TestAuditKeepsItsTimesAndCommandsWhole(t *testing.T) {
	w := newWorld(t)
	w.run(t, exitYes, "consume", "user:42", "--limit", "3/1h")
	w.run(t, exitYes, "block", "tenant:acme:user:42:route:/orders", "--for", "2h", "--reason", "scraper", "--yes")
	w.OutIsTerminal = true
	for _, columns := range []int{40, 60, 80, 100} {
		w.Size = func() (int, int) { return columns, 24 }
		table, _ := w.run(t, exitYes, "audit")
		lines := strings.Split(clitest.Strip(table), "\n")
		if _, err := time.Parse(time.DateTime, lines[1][:min(len(time.DateTime), len(lines[1]))]); err != nil {
			t.Errorf("on %d columns the time is cut: %s", columns, lines[1])
		}
		const command = " block tenant:acme:user:42:route:/orders --for 2h ("
		if said := strings.Join(strings.Fields(table), " "); !strings.Contains(said, command) {
			t.Errorf("on %d columns the command is cut:\n%s", columns, table)
		}
		for _, line := range lines {
			if width := runewidth.StringWidth(line); width > columns {
				t.Errorf("a line of %d columns on a terminal of %d: %s", width, columns, line)
			}
		}
	}
}

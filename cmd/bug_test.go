package cmd

import (
	"io"
	"strings"
	"testing"
	"time"
)

// brokenReader is a terminal that has a bug.
type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { panic("index out of range\ngoroutine 1") }

// A bug ends a command with one line, in whichever goroutine it is.
func TestABugIsOneLine(t *testing.T) {
	for name, c := range map[string]struct {
		args   []string
		breaks func(w *world)
	}{
		"in the command": {[]string{"consume", "a", "--limit", "3/1h", "--wait=1h"}, func(w *world) {
			w.Now = func() time.Time { panic("index out of range\n") }
		}},
		"where it reads a log": {[]string{"simulate", "-", "--limit", "3/1h"}, func(w *world) {
			w.In = brokenReader{}
		}},
		"where it hears a no": {[]string{"reset", "b"}, func(w *world) {
			w.In, w.InIsTerminal = brokenReader{}, true
		}},
		"where it shows itself": {[]string{"inspect", "b"}, func(w *world) { w.Out = brokenWriter{} }},
	} {
		w := newWorld(t)
		w.run(t, exitYes, "consume", "b", "--limit", "3/1h")
		c.breaks(w)
		_, stderr := w.run(t, exitRefused, c.args...)
		_, after, found := strings.Cut(
			stderr, "internal error: index out of range; this is a bug of limitctl, please report it ")
		if !found || strings.Count(after, "\n") != 1 || strings.Contains(stderr, "goroutine") {
			t.Errorf("%s: %s", name, stderr)
		}
		w.Getenv = withVariable(w.Getenv, "LIMITCTL_DEBUG", "1")
		if _, stderr := w.run(t, exitRefused, c.args...); !strings.Contains(stderr, "goroutine ") ||
			!strings.Contains(stderr, "bug_test.go") {
			t.Errorf("%s: where it is is not said: %s", name, stderr)
		}
	}
}

type brokenWriter struct{ io.Writer }

func (brokenWriter) Write([]byte) (int, error) { panic("index out of range") }

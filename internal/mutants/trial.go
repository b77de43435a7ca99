package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/limitctl/limitctl/internal/panics"
)

// A trial tries breaks.
type trial struct {
	root, temp string // the module, and a folder for broken files
	atOnce     int
	timeout    time.Duration // of the tests of one break

	mu    sync.Mutex
	out   io.Writer
	hasty map[string]bool // packages whose tests accept the flags hasty
}

// hasty are flags for property tests. After a failure they would search the smallest case for half a minute, and
// save it beside their sources; here the failure is enough. A fixed seed makes the result repeatable.
var hasty = []string{"-rapid.shrinktime=1ms", "-rapid.nofailfile", "-rapid.seed=1"}

// try tries each break, reports the results, and returns whether tests found all of them.
func (t *trial) try(ctx context.Context, breaks []broken) (ok bool, err error) {
	began := time.Now()
	t.hasty = map[string]bool{}
	var packages []string
	for _, b := range breaks {
		if !slices.Contains(packages, b.pkg) {
			packages = append(packages, b.pkg)
		}
	}
	unfit := map[[2]string]string{} // by package and test: why it cannot judge a break
	err = t.each(len(packages), func(i int) {
		for test, why := range t.soundTests(ctx, packages[i], breaks) {
			t.mu.Lock()
			unfit[[2]string{packages[i], test}] = why
			t.mu.Unlock()
		}
	})
	if err != nil {
		return false, err
	}
	var alive []string
	err = t.each(len(breaks), func(i int) {
		b, began := breaks[i], time.Now()
		why := unfit[[2]string{b.pkg, b.test}]
		if why == "" {
			why = t.lives(ctx, b, filepath.Join(t.temp, fmt.Sprint(i)))
		}
		if ctx.Err() != nil {
			return
		}
		t.mu.Lock()
		defer t.mu.Unlock()
		if why == "" {
			fmt.Fprintf(t.out, "killed  %s  %.1fs\n", b.name, time.Since(began).Seconds())
			return
		}
		alive = append(alive, b.name)
		fmt.Fprintf(t.out, "FAILED  %s (%s): %s\n", b.name, b.file, why)
	})
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return false, err
	}
	fmt.Fprintf(t.out, "%d of %d breaks were killed, in %s\n", len(breaks)-len(alive), len(breaks), time.Since(began).Round(time.Second))
	if len(alive) > 0 {
		slices.Sort(alive)
		fmt.Fprintf(t.out, "these were not: %s\n", strings.Join(alive, ", "))
	}
	return len(alive) == 0, nil
}

// each calls do for 0 to n-1, a few concurrently.
func (t *trial) each(n int, do func(i int)) error {
	work := make(chan int, n)
	for i := range n {
		work <- i
	}
	close(work)
	var group panics.Group
	for range min(t.atOnce, n) {
		group.Go(func() {
			for i := range work {
				do(i)
			}
		})
	}
	return group.Wait()
}

// soundTests runs the tests of a package without a break, and returns why some of them cannot judge breaks.
func (t *trial) soundTests(ctx context.Context, pkg string, breaks []broken) (unfit map[string]string) {
	unfit = map[string]string{}
	folder := filepath.Join(t.temp, strings.ReplaceAll(pkg, "/", "_"))
	binary, failure := t.compile(ctx, pkg, folder, "")
	if failure == "" && exec.CommandContext(ctx, binary, append([]string{"-test.list=^$"}, hasty...)...).Run() == nil {
		t.mu.Lock()
		t.hasty[pkg] = true
		t.mu.Unlock()
	}
	for _, b := range breaks {
		if _, known := unfit[b.test]; known || b.pkg != pkg {
			continue
		}
		if failure != "" {
			unfit[b.test] = "the tests do not compile without the break, either:\n" + failure
			continue
		}
		output, err := t.run(ctx, pkg, binary, b.test, "")
		switch {
		case err != nil:
			unfit[b.test] = fmt.Sprintf("%s %s fails without the break, too:\n%s", pkg, b.test, tail(output))
		case !ran(output, b.test):
			unfit[b.test] = fmt.Sprintf("%s has no test %s", pkg, b.test)
		default:
			unfit[b.test] = ""
		}
	}
	os.RemoveAll(folder)
	return unfit
}

// ran reports whether the output names a test as deep as the expression: for TestA/b, a TestA with a b.
func ran(output, test string) bool {
	for line := range strings.Lines(output) {
		if name, is := strings.CutPrefix(line, "=== RUN "); is && strings.Count(name, "/") >= strings.Count(test, "/") {
			return true
		}
	}
	return false
}

// lives tries a break, and returns why it survives, or "".
func (t *trial) lives(ctx context.Context, b broken, folder string) string {
	defer os.RemoveAll(folder)
	overlay, failure := t.overlay(b, folder)
	if failure != "" {
		return failure
	}
	binary, failure := t.compile(ctx, b.pkg, folder, overlay)
	if failure != "" {
		return "the break does not compile:\n" + failure
	}
	output, err := t.run(ctx, b.pkg, binary, b.test, overlay)
	switch {
	case err == nil:
		return fmt.Sprintf("it survives %s %s: %s", b.pkg, b.test, b.harm)
	case errors.Is(err, context.DeadlineExceeded) || strings.Contains(output, "panic: test timed out"):
		return fmt.Sprintf("%s %s hung for %s; it has to fail", b.pkg, b.test, t.timeout)
	}
	return ""
}

// overlay writes the broken file, and the overlay that makes the go command read it.
func (t *trial) overlay(b broken, folder string) (path, failure string) {
	sound, err := filepath.Abs(filepath.Join(t.root, filepath.FromSlash(b.file)))
	if err != nil {
		return "", err.Error()
	}
	text, err := os.ReadFile(sound)
	if err != nil {
		return "", err.Error()
	}
	switch strings.Count(string(text), b.old) {
	case 0:
		return "", "the text is gone: " + b.old
	case 1:
	default:
		return "", "the text is there more than once: " + b.old
	}
	changed := filepath.Join(folder, "broken"+filepath.Ext(sound))
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {sound: changed}})
	if err != nil {
		return "", err.Error()
	}
	path = filepath.Join(folder, "overlay.json")
	err = errors.Join(os.MkdirAll(folder, 0o700),
		os.WriteFile(changed, []byte(strings.Replace(string(text), b.old, b.new, 1)), 0o600), os.WriteFile(path, replace, 0o600))
	if err != nil {
		return "", err.Error()
	}
	return path, ""
}

// compile builds the tests of a package.
func (t *trial) compile(ctx context.Context, pkg, folder, overlay string) (binary, failure string) {
	binary, err := filepath.Abs(filepath.Join(folder, "tests.exe"))
	if err != nil {
		return "", err.Error()
	}
	c := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-ldflags=-w", "-overlay="+overlay, "-o", binary, pkg)
	c.Dir = t.root
	output, err := c.CombinedOutput()
	if err != nil {
		return "", tail(string(output))
	}
	return binary, ""
}

// run runs tests of any tier. Programs that they build are broken, too.
func (t *trial) run(ctx context.Context, pkg, binary, test, overlay string) (output string, err error) {
	ctx, stop := context.WithTimeout(ctx, t.timeout+time.Minute) // the tests normally end by their own time-out
	defer stop()
	c := exec.CommandContext(ctx, binary, "-test.run="+test, "-test.v", "-test.timeout="+t.timeout.String())
	t.mu.Lock()
	if t.hasty[pkg] {
		c.Args = append(c.Args, hasty...)
	}
	t.mu.Unlock()
	c.Dir = filepath.Join(t.root, filepath.FromSlash(pkg))
	c.WaitDelay = 10 * time.Second // a server that they started can hold the pipe
	if overlay != "" {
		c.Env = append(c.Environ(), "GOFLAGS="+strings.TrimSpace(os.Getenv("GOFLAGS")+" -overlay="+overlay))
	}
	text, err := c.CombinedOutput()
	if errors.Is(err, exec.ErrWaitDelay) {
		err = nil // they passed
	}
	return string(text), errors.Join(err, ctx.Err())
}

// tail is the end of an output, which has the reason.
func tail(output string) string {
	lines := strings.Split(strings.TrimSpace(output), "\n")
	return strings.Join(lines[max(0, len(lines)-20):], "\n")
}

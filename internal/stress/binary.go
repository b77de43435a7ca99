//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/limitctl/limitctl/internal/panics"
)

const (
	oneBinary     = "binary"                // the command that go test calls for each test binary
	orderVariable = "LIMITCTL_STRESS_ORDER" // an order as JSON
)

// An order says how to run a test binary.
type order struct {
	Dir    string // of the place
	User   int
	Env    []string
	Moment time.Time
	Lead   time.Duration
	Clocks *clockwork // nil: the clock is not moved
}

// runBinary runs a test binary like go test, and returns its exit code.
func runBinary(path string, args []string) int {
	code, err := runAsOrdered(path, args)
	if err != nil {
		fmt.Fprintln(os.Stderr, "stress:", err)
		return 1
	}
	return code
}

func runAsOrdered(path string, args []string) (int, error) {
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return 0, err
	}
	var o order
	if err := json.Unmarshal([]byte(os.Getenv(orderVariable)), &o); err != nil {
		return 0, fmt.Errorf("%s: %w", orderVariable, err)
	}
	// go test stores binaries where only the caller can read them.
	folder, err := os.MkdirTemp(o.Dir, "b")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(folder)
	if err := os.Chmod(folder, 0o711); err != nil {
		return 0, err
	}
	binary := filepath.Join(folder, filepath.Base(path))
	if err := os.Link(path, binary); err != nil {
		return 0, err
	}
	args = append(args, "-test.timeout="+ofOne.String())
	if o.Clocks == nil {
		return exitCode(o.run(os.Stdout, binary, args, time.Time{}))
	}
	var output bytes.Buffer
	code, err := exitCode(o.run(&output, binary, append(slices.Clone(args), "-test.v=test2json"), o.Moment.Add(-o.Lead)))
	if err != nil {
		return 0, err
	}
	if code != 0 {
		fmt.Print(said(output.String()))
	}
	alone, err := o.runAlone(binary, args, slow(output.String()))
	return max(code, alone), err
}

// run runs a binary whose clock begins at start, if that is not zero.
func (o *order) run(output io.Writer, binary string, args []string, start time.Time) error {
	cmd := exec.Command(binary, args...)
	directory, err := os.Getwd()
	if err != nil {
		return err
	}
	env := append(o.Env, "PWD="+directory)
	if !start.IsZero() {
		path, err := o.Clocks.pathAhead(time.Until(start))
		if err != nil {
			return err
		}
		env = append(env, "PATH="+path)
	}
	cmd.Env = environment(os.Environ(), env)
	cmd.Stdout, cmd.Stderr = output, output
	cmd.SysProcAttr = attributesOf(o.User)
	return cmd.Run()
}

// exitCode returns the exit code in an error of exec.
func exitCode(err error) (int, error) {
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return max(1, exit.ExitCode()), nil // a signal is -1
	}
	return 0, err
}

// A timed test is one with its duration.
type timed struct {
	name string
	took time.Duration
}

// runAlone runs each of some tests separately, so that the moment is in its middle.
func (o *order) runAlone(binary string, args []string, tests []timed) (int, error) {
	var workers panics.Group
	var next, failed atomic.Int64
	wrong := make([]error, 4*runtime.NumCPU()) // so many concurrently, since they mostly wait
	outputs := make([]string, len(tests))
	for i := range wrong {
		workers.Go(func() {
			for n := next.Add(1) - 1; n < int64(len(tests)) && wrong[i] == nil; n = next.Add(1) - 1 {
				test := tests[n]
				var output bytes.Buffer
				var code int
				code, wrong[i] = exitCode(o.run(&output, binary, append(slices.Clone(args),
					"-test.v=test2json", "-test.run="+patternOf(test.name)), o.Moment.Add(-test.took/2)))
				if code != 0 {
					failed.Add(1)
					outputs[n] = fmt.Sprintf("--- alone: %s, which took %s before\n%s", test.name, test.took, said(output.String()))
				}
			}
		})
	}
	if err := workers.Wait(); err != nil {
		return 0, err
	}
	for _, output := range outputs {
		fmt.Print(output)
	}
	for _, err := range wrong {
		if err != nil {
			return 0, err
		}
	}
	return int(min(failed.Load(), 1)), nil
}

// patternOf returns the pattern that selects one test, or one subtest if the name has a slash.
func patternOf(name string) string {
	parts := strings.Split(name, "/")
	for i, part := range parts {
		parts[i] = "^" + regexp.QuoteMeta(part) + "$"
	}
	return strings.Join(parts, "/")
}

// slow returns the tests in an output of -test.v=test2json that are long enough for a moment to be in the middle.
// Parallel subtests replace the test to which they belong.
func slow(output string) (tests []timed) {
	const short = 500 * time.Millisecond
	took, parts := map[string]time.Duration{}, map[string][]string{}
	for _, found := range regexp.MustCompile(`\x16 *--- (?:PASS|FAIL): (\S+) \((\d+\.\d+)s\)`).FindAllStringSubmatch(output, -1) {
		seconds, _ := strconv.ParseFloat(found[2], 64)
		took[found[1]] = time.Duration(seconds * float64(time.Second))
	}
	for _, found := range regexp.MustCompile(`\x16=== PAUSE (\S+)\n`).FindAllStringSubmatch(output, -1) {
		for whole := found[1]; strings.Contains(whole, "/"); {
			part := whole
			whole = part[:strings.LastIndexByte(part, '/')]
			if !slices.Contains(parts[whole], part) {
				parts[whole] = append(parts[whole], part)
			}
		}
	}
	var add func(name string)
	add = func(name string) {
		for _, part := range parts[name] {
			add(part)
		}
		if len(parts[name]) == 0 && took[name] >= short {
			tests = append(tests, timed{name, took[name]})
		}
	}
	for name := range took {
		if !strings.Contains(name, "/") {
			add(name)
		}
	}
	return tests
}

// said returns the part of an output of -test.v=test2json about failed tests, and everything if the process ended
// before it named one.
func said(output string) string {
	failed := map[string]bool{"": true}
	marks := regexp.MustCompile(`\x16 *--- FAIL: (\S+) `).FindAllStringSubmatch(output, -1)
	for _, found := range marks {
		failed[found[1]] = true
	}
	var lines strings.Builder
	name := ""
	for line := range strings.Lines(output) {
		before, mark, is := strings.Cut(line, "\x16")
		if fields := strings.Fields(mark); is && len(fields) > 2 { // === RUN NAME, or --- PASS: NAME
			if before != "" && (failed[name] || len(marks) == 0) {
				lines.WriteString(before + "\n")
			}
			name = fields[2]
			if line = mark; fields[0] == "===" {
				continue
			}
		}
		if failed[name] || len(marks) == 0 {
			lines.WriteString(line)
		}
	}
	return lines.String()
}

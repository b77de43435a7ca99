//go:build linux

package main

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/tier"
)

func instant(t *testing.T, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func TestMomentsFollowTheClock(t *testing.T) {
	for _, test := range []struct{ now, midnight, window, forward, back string }{
		{"2026-11-23T06:30:00Z", "2026-11-24T00:00:00Z", "2027-02-13T00:00:00Z", "2027-03-28T01:00:00Z", "2027-10-31T01:00:00Z"},
		{"2026-03-29T00:59:59Z", "2026-03-30T00:00:00Z", "2027-02-13T00:00:00Z", "2026-03-29T01:00:00Z", "2026-10-25T01:00:00Z"},
		{"2027-02-13T00:00:00Z", "2027-02-14T00:00:00Z", "2028-02-14T00:00:00Z", "2027-03-28T01:00:00Z", "2027-10-31T01:00:00Z"},
	} {
		all, err := runsAt(instant(t, test.now))
		if err != nil {
			t.Fatal(err)
		}
		var moments []string
		for _, r := range all {
			if !r.moment.IsZero() {
				moments = append(moments, r.moment.Format(time.RFC3339))
			}
		}
		if want := []string{test.midnight, test.window, test.forward, test.back}; !slices.Equal(moments, want) {
			t.Errorf("at %s the moments are %q; want %q", test.now, moments, want)
		}
	}
	india, err := time.LoadLocation("Asia/Kolkata")
	if err != nil {
		t.Fatal(err)
	}
	if at, err := nextChange(instant(t, "2026-11-23T06:30:00Z"), india, true); err == nil {
		t.Errorf("India changes its clocks at %s", at)
	}
}

// Go programs and others see the same clock; PATH alone sets it.
func TestClocksAreMovedTogether(t *testing.T) {
	tier.Full(t, "a C compiler")
	dir := t.TempDir()
	goroot, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	clocks, err := newClockwork(dir, strings.TrimSpace(string(goroot)))
	if err != nil {
		t.Fatal(err)
	}
	const source = `package main

import "time"

func main() {
	began := time.Now()
	println(began.UnixNano())
	if d := time.Since(began); d < 0 || d > time.Hour {
		panic(d)
	}
}
`
	program := filepath.Join(dir, "program")
	if err := os.WriteFile(program+".go", []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", "build", "-overlay", clocks.Overlay, "-o", program, program+".go")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, ahead := range []time.Duration{0, 36*time.Hour + 250*time.Millisecond, 366 * 24 * time.Hour} {
		path, err := clocks.pathAhead(ahead)
		if err != nil {
			t.Fatal(err)
		}
		for _, command := range []string{program, "date +%s%N"} {
			cmd := exec.Command("sh", "-c", "exec "+command)
			cmd.Env = []string{"PATH=" + path}
			before := time.Now()
			out, err := cmd.CombinedOutput()
			after := time.Now()
			if err != nil {
				t.Fatalf("%s: %v\n%s", command, err, out)
			}
			n, err := strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64)
			if shown := time.Unix(0, n); err != nil || shown.Before(before.Add(ahead)) || shown.After(after.Add(ahead)) {
				t.Errorf("%s ahead, %s shows %s, %v; want %s to %s", ahead, command, shown, err, before.Add(ahead), after.Add(ahead))
			}
		}
	}
}

// A version of Go that reads the clock in another way is an error.
func TestAnUnknownTimeGoIsAnError(t *testing.T) {
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "src", "time"), 0o700); err != nil {
		t.Fatal(err)
	}
	unknown := []byte("package time\n\nfunc Now() Time { return now() }\n")
	if err := os.WriteFile(filepath.Join(root, "src", "time", "time.go"), unknown, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := overlayOfTime(t.TempDir(), root); err == nil || !strings.Contains(err.Error(), "adapt overlayOfTime") {
		t.Errorf("error %v", err)
	}
}

func TestBusyLoopsEnd(t *testing.T) {
	loops := func() int {
		stacks := make([]byte, 1<<20)
		return bytes.Count(stacks[:runtime.Stack(stacks, true)], []byte("stress.busyLoops.func1("))
	}
	stop := busyLoops(3)
	n := loops()
	for deadline := time.Now().Add(time.Minute); n < 3 && time.Now().Before(deadline); n = loops() {
		time.Sleep(time.Millisecond)
	}
	if n != 3 {
		t.Errorf("%d loops run", n)
	}
	stopped := make(chan bool)
	go func() { stop(); close(stopped) }()
	select {
	case <-stopped:
	case <-time.After(time.Minute):
		t.Fatal("the loops do not end")
	}
	if n := loops(); n != 0 {
		t.Errorf("%d loops still run", n)
	}
}

// A test that starts processes and forgets them is detected, and so are their descendants.
func TestProcessesLeftBehindAreEnded(t *testing.T) {
	cmd := exec.Command(os.Args[0], "-test.run=^TestForgetful$")
	cmd.Env = append(os.Environ(), forgetful+"=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	fields := strings.Fields(string(out))
	if len(fields) < 3 || fields[0] != "found" {
		t.Fatalf("it says %q", out)
	}
	for _, id := range fields[1:3] {
		if _, err := os.Stat("/proc/" + id); !os.IsNotExist(err) {
			t.Errorf("process %s still runs: %v", id, err)
		}
	}
}

const forgetful = "STRESS_TEST_FORGETS"

// TestForgetful is the process of TestProcessesLeftBehindAreEnded. It starts a shell that ends, and leaves another
// one with a child.
func TestForgetful(t *testing.T) {
	if os.Getenv(forgetful) == "" {
		return
	}
	if err := adopt(); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("sh", "-c", "(sleep 1000; :) >/dev/null 2>&1 &").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	left, err := below()
	for deadline := time.Now().Add(time.Minute); err == nil && len(left) < 2 && time.Now().Before(deadline); left, err = below() {
		time.Sleep(time.Millisecond)
	}
	if err != nil || len(left) != 2 {
		t.Fatalf("left behind are %v, %v; want a shell and its sleep", left, err)
	}
	if err := endAll(); err != nil {
		t.Fatal(err)
	}
	fmt.Println("found", left[0].id, left[1].id)
}

// Parallel subtests run alone one by one, and other tests as a whole.
func TestWhatIsRunAlone(t *testing.T) {
	output := strings.ReplaceAll(`^=== RUN   TestWhole
^=== RUN   TestWhole/a
^    --- PASS: TestWhole/a (0.80s)
^--- PASS: TestWhole (0.51s)
^=== RUN   TestParts
^=== RUN   TestParts/single
^=== PAUSE TestParts/single
^=== CONT  TestParts/single
^=== RUN   TestParts/single/a.b
^=== PAUSE TestParts/single/a.b
^=== RUN   TestParts/single/quick
^=== PAUSE TestParts/single/quick
^=== NAME  TestParts/single/a.b
says something
^        --- PASS: TestParts/single/a.b (2.50s)
^        --- PASS: TestParts/single/quick (0.49s)
^    --- PASS: TestParts/single (0.00s)
^--- PASS: TestParts (0.00s)
^--- PASS: TestQuick (0.49s)
PASS
`, "^", "\x16")
	tests := slow(output)
	slices.SortFunc(tests, func(a, b timed) int { return strings.Compare(a.name, b.name) })
	want := []timed{{"TestParts/single/a.b", 2500 * time.Millisecond}, {"TestWhole", 510 * time.Millisecond}}
	if !slices.Equal(tests, want) {
		t.Errorf("%v; want %v", tests, want)
	}
	if got := patternOf("TestParts/single/a.b"); got != `^TestParts$/^single$/^a\.b$` {
		t.Errorf("the pattern is %s", got)
	}
}

// Of a thousand tests that log something, only those that fail are shown.
func TestWhatFailedIsShown(t *testing.T) {
	output := strings.ReplaceAll(`-test.shuffle 7
^=== RUN   TestGood
    good.go:1: all is well
^--- PASS: TestGood (0.00s)
^=== RUN   TestBad
^=== RUN   TestBad/one
^=== PAUSE TestBad/one
^=== CONT  TestBad/one
    bad.go:1: too many
half a line^=== RUN   TestBad/two
    bad.go:2: all is well
^=== NAME  TestBad/one
    bad.go:3: too few
^    --- FAIL: TestBad/one (0.00s)
^    --- PASS: TestBad/two (0.00s)
^--- FAIL: TestBad (0.00s)
FAIL
`, "^", "\x16")
	want := `-test.shuffle 7
    bad.go:1: too many
half a line
    bad.go:3: too few
    --- FAIL: TestBad/one (0.00s)
--- FAIL: TestBad (0.00s)
FAIL
`
	if got := said(output); got != want {
		t.Errorf("it says\n%s; want\n%s", got, want)
	}
	if got := said("\x16=== RUN   TestA\npanic: x\n"); got != "panic: x\n" {
		t.Errorf("of a process that ended it says %q", got)
	}
}

// A stranger cannot reach folders in a closed home.
func TestAClosedHomeIsFound(t *testing.T) {
	home := t.TempDir()
	inside := filepath.Join(home, "go", "pkg")
	if err := os.MkdirAll(inside, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Dir(home), 0o711); err != nil {
		t.Fatal(err)
	}
	above, err := closedAbove(home) // the folder for temporary files can be in a home
	if err != nil {
		t.Fatal(err)
	}
	for mode, want := range map[os.FileMode]string{0o700: cmp.Or(above, home), 0o711: above} {
		if err := os.Chmod(home, mode); err != nil {
			t.Fatal(err)
		}
		if closed, err := closedAbove(inside); err != nil || closed != want {
			t.Errorf("with mode %o, %q is closed, %v; want %q", mode, closed, err, want)
		}
	}
}

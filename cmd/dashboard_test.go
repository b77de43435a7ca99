package cmd

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	xterm "golang.org/x/term"

	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/internal/terminaltest"
)

// terminal is a real one, with a dashboard on it.
type terminal struct {
	*testing.T
	keyboard *os.File // the side of who sits before it
	screen   *os.File // the side of the program
	before   *xterm.State
	cmd      *exec.Cmd

	mu      sync.Mutex
	written strings.Builder // by the program
	more    chan struct{}
}

// openTerminal returns a terminal of 80 columns and 24 lines.
func openTerminal(t *testing.T) *terminal {
	t.Helper()
	screen, keyboard, err := terminaltest.Open()
	if err != nil {
		t.Fatal(err)
	}
	term := &terminal{T: t, keyboard: keyboard, screen: screen, more: make(chan struct{}, 1)}
	term.before = term.settings()
	go func() {
		part := make([]byte, 1<<16)
		for {
			n, err := keyboard.Read(part)
			if err != nil {
				return
			}
			term.mu.Lock()
			term.written.Write(part[:n])
			term.mu.Unlock()
			select {
			case term.more <- struct{}{}:
			default:
			}
		}
	}()
	t.Cleanup(func() {
		if term.cmd != nil && term.cmd.ProcessState == nil {
			term.cmd.Process.Kill()
			term.cmd.Wait()
		}
		screen.Close()
		keyboard.Close()
	})
	return term
}

// settings are how the terminal treats what is typed and shown.
func (term *terminal) settings() *xterm.State {
	term.Helper()
	settings, err := xterm.GetState(int(term.screen.Fd()))
	if err != nil {
		term.Fatal(err)
	}
	return settings
}

// start runs limitctl on the terminal.
func (term *terminal) start(env []string, args ...string) {
	term.Helper()
	cmd := exec.Command("limitctl", args...)
	cmd.Env = append(os.Environ(), env...)
	term.run(cmd)
}

// run starts a command on the terminal.
func (term *terminal) run(cmd *exec.Cmd) {
	term.Helper()
	term.cmd = cmd
	term.cmd.Stdin, term.cmd.Stdout, term.cmd.Stderr = term.screen, term.screen, term.screen
	terminaltest.Control(term.cmd)
	if err := term.cmd.Start(); err != nil {
		term.Fatal(err)
	}
}

// text is what was written from a place on.
func (term *terminal) text(from int) string {
	term.mu.Lock()
	defer term.mu.Unlock()
	return term.written.String()[from:]
}

// patience is how long a test waits for what must come.
const patience = time.Minute

// wait waits until all that is wanted was written from a place on.
func (term *terminal) wait(from int, wanted ...string) {
	term.Helper()
	deadline := time.After(patience)
	for _, pattern := range wanted {
		for !regexp.MustCompile(pattern).MatchString(term.text(from)) {
			select {
			case <-term.more:
			case <-deadline:
				text := term.text(from)
				term.Fatalf("%q did not come; the last that came is\n%q", pattern, text[max(0, len(text)-2000):])
			}
		}
	}
}

// press types keys and waits for what they bring about.
func (term *terminal) press(keys string, wanted ...string) {
	term.Helper()
	from := len(term.text(0))
	if _, err := term.keyboard.WriteString(keys); err != nil {
		term.Fatal(err)
	}
	term.wait(from, wanted...)
}

// What ends a program in full screen: the other screen, and the cursor, are back.
const endOfScreen = `\x1b\[\?1049l`

// checkLeft waits for the end, and makes sure that the terminal is as it was.
func (term *terminal) checkLeft(code int) {
	term.Helper()
	term.cmd.Wait()
	if got := term.cmd.ProcessState.ExitCode(); got != code {
		term.Errorf("exit code %d, want %d", got, code)
	}
	term.wait(0, endOfScreen, `\x1b\[\?25h`, `\x1b\[\?1006l`)
	if after := term.settings(); *after != *term.before {
		term.Errorf("the terminal is left with %+v, and was %+v", *after, *term.before)
	}
}

// eventually waits until something is so.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it is never so that %s", what)
		}
	}
}

// An incident: a bucket fills, it is found, reset, and brought back.
func TestDashboardInATerminal(t *testing.T) {
	t.Parallel()
	store := "redis://" + redistest.Start(t).Addr
	env := []string{"NO_COLOR=1", "TERM=xterm-256color", "HOME=" + t.TempDir(), "XDG_STATE_HOME=", "LIMITCTL_STORE=" +
		unset}
	limitctl := func(args ...string) string {
		t.Helper()
		cmd := exec.Command("limitctl", args...)
		cmd.Env = append(os.Environ(), env...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%q: %s\n%s", args, err, out)
		}
		return string(out)
	}
	consume := func(subject, cost string) {
		t.Helper()
		limitctl("consume", subject, "--store", store, "--limit", "10/1h", "--cost", cost)
	}
	consume("user:2", "5")
	term := openTerminal(t)
	term.start(env, "top", "--store", store, "--refresh", "100ms")
	term.wait(0, `user:2 .* 5/10`, `0 at the limit`, `Redis \d`)
	consume("user:1", "1")
	term.wait(0, `user:1 .* 1/10`)
	from := len(term.text(0))
	consume("user:1", "9")
	term.wait(from, `user:1 .* 10/10`, `1 at the limit`)

	term.press("/user:1", `filter: user:1`)
	term.press("\r", `\? help`)
	term.press("r", `Delete 1 key\?`, `user:1 token-bucket/1h  10/10 used`)
	term.press("y", `deleted 1 key`, `user:1 .* 0/10`)
	if left := limitctl("inspect", "*", "--store", store, "-o", "csv"); strings.Contains(left, "user:1") ||
		!strings.Contains(left, "user:2") {
		t.Errorf("left after the reset:\n%s", left)
	}
	term.press("u", `Bring back 1 key\?`)
	term.press("y", `brought back 1 key`, `user:1 .* 10/10`)
	term.press("\r", `one more unit fits in`)

	// Away to the shell, and back.
	from = len(term.text(0))
	term.press("\x1a", endOfScreen)
	eventually(t, "the shell has the terminal as it was", func() bool { return *term.settings() == *term.before })
	eventually(t, "it comes back", func() bool {
		if err := terminaltest.Resume(term.cmd.Process); err != nil { // unheard until it listens
			t.Fatal(err)
		}
		return strings.Contains(term.text(from), "\x1b[?1049h")
	})

	term.press("q", endOfScreen, `undo with: limitctl undo`)
	term.checkLeft(exitYes)
	changes := regexp.MustCompile(`(?s)done, undone\s+reset in the dashboard: user:1 token-bucket/1h\n.*done\s+undo `)
	if audit := limitctl("audit"); !changes.MatchString(audit) {
		t.Errorf("the audit:\n%s", audit)
	}
}

func TestDashboardLeavesTheTerminalAsItWas(t *testing.T) {
	store := "redis://" + redistest.Start(t).Addr
	for _, test := range []struct {
		name string
		code int
		end  func(*terminal)
	}{
		{"q", exitYes, func(term *terminal) { term.press("q") }},
		{"Ctrl-C", exitInterrupted, func(term *terminal) { term.press("\x03") }},
		{"SIGTERM", exitInterrupted, func(term *terminal) { term.cmd.Process.Signal(syscall.SIGTERM) }},
		{"SIGHUP", exitInterrupted, func(term *terminal) { term.cmd.Process.Signal(syscall.SIGHUP) }},
		{"SIGQUIT", exitInterrupted, func(term *terminal) { term.cmd.Process.Signal(syscall.SIGQUIT) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			term := openTerminal(t)
			term.start([]string{"TERM=xterm-256color", "HOME=" + t.TempDir()}, "dashboard", "--store", store)
			term.wait(0, `nothing in use matches`)
			test.end(term)
			term.checkLeft(test.code)
			if text := term.text(0); strings.Contains(text, "limitctl: context") || test.name != "SIGTERM" &&
				strings.Contains(text, "limitctl: ") {
				t.Errorf("when it is left it says %q", text[max(0, len(text)-300):])
			}
		})
	}
}

// A terminal that cannot move its cursor, or does not say what it is, is told what to use instead.
func TestDashboardOnOtherTerminals(t *testing.T) {
	t.Parallel()
	start := func(variables ...string) *terminal {
		term := openTerminal(t)
		term.start(append([]string{"LC_ALL=", "LANG=C.UTF-8", "HOME=" + t.TempDir(), "XDG_STATE_HOME=",
			"LIMITCTL_STORE=" + unset}, variables...),
			"dashboard", "--store", "memory:")
		return term
	}
	for _, name := range []string{"dumb", "unknown", ""} {
		term := start("TERM=" + name)
		term.wait(0, `limitctl: a terminal with TERM="`+name+`" cannot show the dashboard; use .*dashboard --once`)
		if term.cmd.Wait(); term.cmd.ProcessState.ExitCode() != exitUsage {
			t.Errorf("TERM=%q: it ended with %s", name, term.cmd.ProcessState)
		}
		if text := term.text(0); strings.Contains(text, "\x1b") || strings.Count(text, "\n") != 1 {
			t.Errorf("TERM=%q: it wrote %q", name, text)
		}
	}
}

//go:build unix

package cmd

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/tier"
)

// child is limitctl as a process of its own.
type child struct {
	t      *testing.T
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    io.ReadCloser
	stderr bytes.Buffer
	dir    string
}

func newChild(t *testing.T, args ...string) *child {
	t.Helper()
	limitctl, err := exec.LookPath("limitctl") // testscript puts it there
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	c := &child{t: t, cmd: exec.Command(limitctl, args...), dir: dir}
	c.cmd.Dir, c.cmd.Stderr = dir, &c.stderr
	c.cmd.Env = append(os.Environ(),
		"XDG_STATE_HOME="+filepath.Join(dir, "state"), "XDG_CONFIG_HOME="+filepath.Join(dir, "config"), "HOME="+dir)
	if c.in, err = c.cmd.StdinPipe(); err == nil {
		c.out, err = c.cmd.StdoutPipe()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if c.cmd.Process != nil {
			c.cmd.Process.Kill() // if it still runs
		}
	})
	return c
}

// file writes a file. A child that reads it meanwhile sees what it was before, or the whole.
func (c *child) file(name, text string) {
	c.t.Helper()
	path := filepath.Join(c.dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path+".new", []byte(text), 0o600),
		os.Rename(path+".new", path)); err != nil {
		c.t.Fatal(err)
	}
}

func (c *child) start() {
	c.t.Helper()
	if err := c.cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
}

// exit waits for the end of the process.
func (c *child) exit() (code int) {
	c.t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- c.cmd.Wait() }()
	select {
	case err := <-ended:
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			c.t.Fatal(err)
		}
		return c.cmd.ProcessState.ExitCode()
	case <-time.After(childPatience):
		c.cmd.Process.Kill()
		<-ended
		c.t.Fatalf("limitctl %q does not end; it says %s", c.cmd.Args[1:], &c.stderr)
		return -1
	}
}

// silentServer accepts connections and never says a word.
func silentServer(t *testing.T) (url string, connected <-chan net.Conn) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	connections := make(chan net.Conn, 10)
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { connection.Close() })
			select {
			case connections <- connection:
			default:
			}
		}
	}()
	return "redis://" + listener.Addr().String(), connections
}

// Whatever a command waits for, an interrupt ends it.
func TestInterruptEndsWhatWaits(t *testing.T) {
	tier.Full(t, "many cases, which take long")
	asks := func(c *child, connected <-chan net.Conn) {
		select {
		case <-connected:
		case <-time.After(childPatience):
			c.t.Fatalf("limitctl %q asks no server; it says %s", c.cmd.Args[1:], &c.stderr)
		}
	}
	reads := func(c *child, _ <-chan net.Conn) { // more than a pipe holds
		if _, err := io.WriteString(c.in, strings.Repeat("x\n", 100_000)); err != nil {
			c.t.Fatal(err)
		}
	}
	prints := func(c *child, _ <-chan net.Conn) { // and then nobody reads what it prints
		if _, err := c.out.Read(make([]byte, 1)); err != nil {
			c.t.Fatal(err)
		}
	}
	var audit strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&audit, "{\"time\":\"2026-01-02T03:04:05Z\",\"matched\":%d,\"selection\":%q}\n",
			i, strings.Repeat("x", 100))
	}
	for _, test := range []struct {
		args  string
		waits func(c *child, connected <-chan net.Conn)
	}{
		{"simulate - --limit 1/1h --log-format apache", reads},
		{"check u --limit 1/1h --timeout 1h --store SILENT", asks},
		{"inspect * --timeout 1h --store SILENT", asks},
		{"doctor --timeout 1h --store SILENT", asks},
		{"reset * --yes --timeout 5s --store SILENT", asks}, // what it may have begun ends with the time-out
		{"consume u --limit 1/1h --timeout 5s --store SILENT", asks},
		{"audit -o jsonl", prints},
		{"audit", prints},
	} {
		for _, signal := range []os.Signal{syscall.SIGTERM, syscall.SIGINT} {
			t.Run(test.args+"/"+signal.String(), func(t *testing.T) {
				t.Parallel()
				silent, connected := silentServer(t)
				c := newChild(t, strings.Fields(strings.ReplaceAll(test.args, "SILENT", silent))...)
				c.file("state/limitctl/audit.jsonl", audit.String())
				c.start()
				test.waits(c, connected)
				if err := c.cmd.Process.Signal(signal); err != nil {
					t.Fatal(err)
				}
				if code := c.exit(); code != exitInterrupted ||
					!strings.Contains(c.stderr.String(), "limitctl: interrupted") {
					t.Errorf("limitctl %s: after %v exit code %d, and it says %q", test.args, signal, code, &c.stderr)
				}
			})
		}
	}
}

// Who holds work of a store ends it, and nobody begins some once the process ends.
func TestStoreWork(t *testing.T) {
	held := new(storeWork)
	held.hold()
	if held.leave() {
		t.Error("a command in the middle of its work is left")
	}
	free := new(storeWork)
	if !free.leave() {
		t.Error("a command without work is waited for")
	}
	begun := make(chan struct{})
	go func() { free.hold(); close(begun) }()
	select {
	case <-begun:
		t.Error("work begins while the process ends")
	case <-time.After(10 * time.Millisecond):
	}
}

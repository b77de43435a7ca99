//go:build unix

package cmd

import (
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// A server answers at sockets that it was started with, by their names, and leaves them open when it ends, so that the next one
// gets the connections that come meanwhile.
func TestServeTakesSocketsOfSystemd(t *testing.T) {
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Fatal(err)
	}
	var files []*os.File
	var addresses []string
	for range 2 {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		file, err := listener.(*net.TCPListener).File()
		if err != nil {
			t.Fatal(err)
		}
		addresses = append(addresses, listener.Addr().String())
		listener.Close()
		defer file.Close()
		files = append(files, file)
	}
	for range 2 {
		c := newChild(t, "serve", "--listen", "systemd:http", "--admin", "systemd:admin", "-o", "jsonl")
		c.cmd.Path, c.cmd.Args = shell, append([]string{shell, "-c", `LISTEN_PID=$$ exec "$0" "$@"`}, c.cmd.Args...)
		c.cmd.ExtraFiles = files
		c.cmd.Env = append(c.cmd.Env, "LISTEN_FDS=2", "LISTEN_FDNAMES=admin:http")
		s := c.serving()
		if s.addresses["admin"] != addresses[0] || s.addresses["http"] != addresses[1] {
			t.Errorf("it listens at %v, not at %v", s.addresses, addresses)
		}
		if status, err := s.consume(http.DefaultClient); status != http.StatusOK {
			t.Errorf("status %d, %v", status, err)
		}
		if response, err := http.Get(s.url("admin", "/readyz")); err != nil || response.StatusCode != http.StatusOK {
			t.Errorf("/readyz: %v, %v", response, err)
		}
		s.end()
		conn, err := net.Dial("tcp", addresses[1])
		if err != nil {
			t.Fatalf("the socket is closed after the end: %v", err)
		}
		defer conn.Close()
	}
}

func TestWhatIsWrongWithSocketsOfSystemd(t *testing.T) {
	for _, test := range []struct{ pid, names, args string }{
		{"", "", "--listen systemd:http"}, {"4712", "http", "--listen systemd:http"},
		{"4711", "http:admin", "--grpc systemd:grpc"}, {"4711", "http:http", "--listen systemd:http"},
	} {
		w := newWorld(t)
		w.Process = 4711
		inner := w.Getenv
		w.Getenv = func(name string) string {
			switch name {
			case "LISTEN_PID":
				return test.pid
			case "LISTEN_FDNAMES":
				return test.names
			}
			return inner(name)
		}
		_, stderr := w.run(t, exitUsage, append([]string{"serve"}, strings.Fields(test.args)...)...)
		want := "limitctl: " + test.args + ": systemd has not passed exactly one socket of that name to this process"
		if !strings.HasPrefix(stderr, want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s with %q: %q, want %q", test.args, test.names, stderr, want)
		}
	}
}

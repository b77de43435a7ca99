//go:build unix

package cmd

import (
	"bufio"
	"encoding/json"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"
)

// served is `limitctl serve` as a process of its own, on ports that the system chose.
type served struct {
	*child
	addresses map[string]string
}

// startServe starts a server with those flags, and waits until it listens. It has to end before
// the test does.
func startServe(t *testing.T, args ...string) *served {
	t.Helper()
	c := newChild(t, append([]string{"serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "-o", "jsonl"},
		args...)...)
	return c.serving()
}

// serving starts a child that is a server.
func (c *child) serving() *served {
	c.t.Helper()
	c.start()
	first := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(c.out).ReadString('\n')
		first <- line
	}()
	var answer struct{ Addresses map[string]string }
	select {
	case line := <-first:
		if err := json.Unmarshal([]byte(line), &answer); err != nil {
			code := c.exit()
			c.t.Fatalf("limitctl %q says %q and exits with %d: %s", c.cmd.Args[1:], line, code, &c.stderr)
		}
	case <-time.After(childPatience):
		c.t.Fatalf("limitctl %q does not listen", c.cmd.Args[1:])
	}
	return &served{c, answer.Addresses}
}

// url is that of a path at a listener.
func (s *served) url(listener, path string) string { return "http://" + s.addresses[listener] + path }

// signal sends the process a signal.
func (s *served) signal(number syscall.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(number); err != nil {
		s.t.Fatal(err)
	}
}

// end ends the server in order, and returns what it logged.
func (s *served) end() string {
	s.t.Helper()
	s.signal(syscall.SIGTERM)
	if code := s.exit(); code != exitYes {
		s.t.Errorf("the server exits with %d: %s", code, &s.stderr)
	}
	return s.stderr.String()
}

// consume takes a unit of a limit, and returns the status.
func (s *served) consume(client *http.Client) (int, error) {
	response, err := client.Post(s.url("http", "/v1/consume"), "application/json",
		strings.NewReader(`{"key":"user:42","limits":["10/1m"]}`))
	if err != nil {
		return 0, err
	}
	return response.StatusCode, response.Body.Close()
}

// Package redistest starts private redis-server processes for tests, on free
// ports of the loopback interface, and ends them with the test. It never talks
// to a server that it did not start.
package redistest

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Server is a running redis-server.
type Server struct {
	Addr   string // host:port
	Socket string // path of its unix socket
	Dir    string // its working directory
	tb     testing.TB
	cmd    *exec.Cmd
}

// startTimeout is generous: machines that run tests are busy.
const startTimeout = 30 * time.Second

// Start runs a redis-server without persistence until the test ends; args are
// further configuration, such as "--maxmemory", "3mb". Without the binary the
// test fails.
func Start(tb testing.TB, args ...string) *Server {
	tb.Helper()
	binary, err := exec.LookPath("redis-server")
	if err != nil {
		tb.Fatal("redis-server is not installed; `make test` installs it")
	}
	// Somebody else can take the port between finding and using it.
	for range 5 {
		if s := start(tb, binary, args); s != nil {
			return s
		}
	}
	tb.Fatal("redis-server did not start on any of 5 free ports")
	return nil
}

func start(tb testing.TB, binary string, args []string) *Server {
	tb.Helper()
	// A socket's path must be short; a test's own directory is often not.
	dir, err := os.MkdirTemp("", "redistest")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { os.RemoveAll(dir) })
	s := &Server{Addr: freeAddr(tb), Socket: filepath.Join(dir, "s"), Dir: dir, tb: tb}
	_, port, _ := net.SplitHostPort(s.Addr)
	s.cmd = exec.Command(binary, append([]string{
		"--port", port, "--bind", "127.0.0.1", "--unixsocket", s.Socket, "--dir", dir,
		"--save", "", "--appendonly", "no", "--logfile", filepath.Join(dir, "log"),
	}, args...)...)
	if err := s.cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	exited := make(chan struct{})
	go func() { s.cmd.Wait(); close(exited) }()
	tb.Cleanup(func() {
		s.Resume()
		s.cmd.Process.Kill()
		<-exited
	})
	for deadline := time.Now().Add(startTimeout); time.Now().Before(deadline); {
		if conn, err := net.Dial("unix", s.Socket); err == nil {
			conn.Close()
			return s
		}
		select {
		case <-exited:
			return nil
		case <-time.After(5 * time.Millisecond):
		}
	}
	log, _ := os.ReadFile(filepath.Join(dir, "log"))
	tb.Fatalf("redis-server did not answer within %s; its log:\n%s", startTimeout, log)
	return nil
}

func freeAddr(tb testing.TB) string {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// Client returns a client of the server, closed with the test.
func (s *Server) Client() *redis.Client {
	client := redis.NewClient(&redis.Options{Addr: s.Addr, ContextTimeoutEnabled: true, DisableIdentity: true})
	s.tb.Cleanup(func() { client.Close() })
	return client
}

// Do runs one command and fails the test on an error.
func (s *Server) Do(args ...any) any {
	s.tb.Helper()
	client := redis.NewClient(&redis.Options{Addr: s.Addr, DisableIdentity: true})
	defer client.Close()
	reply, err := client.Do(context.Background(), args...).Result()
	if err != nil && err != redis.Nil {
		s.tb.Fatalf("%v: %v", args, err)
	}
	return reply
}

// CommandCalls returns how often the server ran a command, by INFO commandstats.
func (s *Server) CommandCalls(command string) int {
	s.tb.Helper()
	text := fmt.Sprint(s.Do("INFO", "commandstats"))
	_, rest, _ := strings.Cut(text, "cmdstat_"+command+":calls=")
	calls, _, _ := strings.Cut(rest, ",")
	n, _ := strconv.Atoi(calls) // 0 when it never ran
	return n
}

// Pause stops the process without ending it: it accepts connections and answers
// nothing until Resume.
func (s *Server) Pause() { s.cmd.Process.Signal(syscall.SIGSTOP) }

// Resume ends a Pause.
func (s *Server) Resume() { s.cmd.Process.Signal(syscall.SIGCONT) }

// Kill ends the process at once, as a crash would.
func (s *Server) Kill() { s.cmd.Process.Kill() }

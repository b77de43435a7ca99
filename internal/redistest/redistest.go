// Package redistest starts private redis-server processes for tests and benchmarks, on free ports of the loopback
// interface, and ends them with the test: a single server, a Cluster, or a master and a replica with Sentinels. It
// never talks to a server that it did not start.
package redistest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/hostile"
	"github.com/limitctl/limitctl/internal/tier"
)

// Server is a [Process] that belongs to a test.
type Server struct {
	*Process
	tb testing.TB
}

// Start runs a redis-server without persistence until the test ends; args are additional configuration, such as
// "--maxmemory", "3mb". Without the binary the test fails.
func Start(tb testing.TB, args ...string) *Server {
	tb.Helper()
	return &Server{Process: started(tb, func() (*Process, error) { return Launch(args...) }), tb: tb}
}

// Client returns a client of the server, closed with the test.
func (s *Server) Client() *redis.Client {
	client := redis.NewClient(&redis.Options{Addr: s.Addr, ReadTimeout: Patience, ContextTimeoutEnabled: true,
		DisableIdentity: true})
	s.tb.Cleanup(func() { client.Close() })
	return client
}

// Do runs one command and fails the test on an error.
func (s *Server) Do(args ...any) any {
	s.tb.Helper()
	reply, err := s.do(context.Background(), args...).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
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
	n, _ := strconv.Atoi(calls) // 0 if it never ran
	return n
}

// StartCluster runs a Cluster until the test ends; see [LaunchCluster].
func StartCluster(tb testing.TB, args ...string) *Cluster {
	tb.Helper()
	tier.Full(tb, "a Cluster or Sentinels")
	return started(tb, func() (*Cluster, error) { return LaunchCluster(args...) })
}

// StartClusterWithReplicas runs a Cluster whose masters have a replica each, until the test ends; see [LaunchCluster].
func StartClusterWithReplicas(tb testing.TB, args ...string) *Cluster {
	tb.Helper()
	tier.Full(tb, "a Cluster or Sentinels")
	return started(tb, func() (*Cluster, error) { return launchCluster(1, args) })
}

// StartSentinel runs a master and a replica with Sentinels until the test ends; see [LaunchSentinel].
func StartSentinel(tb testing.TB, args ...string) *Sentinel {
	tb.Helper()
	tier.Full(tb, "a Cluster or Sentinels")
	return started(tb, func() (*Sentinel, error) { return LaunchSentinel(args...) })
}

// started returns what launch starts, stopped with the test.
func started[T interface{ Stop() }](tb testing.TB, launch func() (T, error)) T {
	tb.Helper()
	it, err := launch()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(it.Stop)
	return it
}

// Patience is how long tests wait for what has to come, however busy the machine is.
const Patience = time.Minute

// Patiently calls try with a short time-out, and then with longer ones until nothing is missing: a try with a server
// that hangs lasts the whole time-out, and a healthy server on a busy machine needs more time. A try returns what is
// missing.
func Patiently(tb testing.TB, short time.Duration, try func(timeout time.Duration) (missing error)) {
	tb.Helper()
	for timeout := short; ; timeout *= 4 {
		missing := try(timeout)
		if missing == nil {
			return
		}
		if timeout*4 > Patience {
			tb.Fatalf("with a time-out of %s: %v", timeout, missing)
		}
	}
}

// LongPeriod returns a period of a year whose current window, which begins at a whole number of periods since 1970,
// lasts at least another day, so that it does not end during a test.
func LongPeriod() time.Duration {
	const day, longest = 24 * time.Hour, 366 * 24 * time.Hour
	if time.Duration(time.Now().UnixNano())%longest < longest-day {
		return longest
	}
	return longest - day
}

// Scripted serves RESP on loopback until the test ends and returns its address. answer gets the words of each
// command and returns the bytes of the answer. Several connections can call it concurrently. It simulates servers
// that break the rules.
func Scripted(t testing.TB, answer func(words []string) string) (address string) {
	t.Helper()
	return hostile.Start(t, "", hostile.Behaviour{Answer: func(c *hostile.Client) bool {
		_, err := io.WriteString(c, answer(c.Words))
		return err == nil
	}}).Addr
}

// Bulk is a text as an answer of a scripted server.
func Bulk(text string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(text), text) }

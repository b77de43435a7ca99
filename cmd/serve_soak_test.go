//go:build linux

package cmd

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/internal/tier"
)

var soak = flag.Duration("soak", time.Second, "how long TestServeSoak loads its server")

// usage is what a server process holds.
type usage struct {
	resident   int // MiB
	goroutines int
	sockets    int
}

func (s *served) usage() (u usage) {
	s.t.Helper()
	process := fmt.Sprintf("/proc/%d/", s.cmd.Process.Pid)
	status, err := os.ReadFile(process + "status")
	if err != nil {
		s.t.Fatal(err)
	}
	number := func(pattern, text string) int {
		found := regexp.MustCompile(pattern).FindStringSubmatch(text)
		if found == nil {
			s.t.Fatalf("%s does not match %s", pattern, text)
		}
		n, _ := strconv.Atoi(found[1]) // digits
		return n
	}
	u.resident = number(`VmRSS:\s+(\d+) kB`, string(status)) / 1024
	u.goroutines = number(`(?m)^go_goroutines (\d+)$`, s.get("admin", "/metrics"))
	files, _ := filepath.Glob(process + "fd/*")
	for _, file := range files {
		if to, err := os.Readlink(file); err == nil && strings.HasPrefix(to, "socket:") {
			u.sockets++
		}
	}
	return u
}

// A server that is asked for a long time, by clients that come and go, on a store that hangs now and then, ends with no
// more goroutines than it began with, no more connections than a client of Redis keeps, and about the memory that it
// had after the first tenth and the first round of each player; and no limit let more through than it says.
func TestServeSoak(t *testing.T) {
	tier.Full(t, "load tests of seconds")
	t.Parallel()
	redis := redistest.Start(t)
	s := startServe(t, "--store", "redis://"+redis.Addr, "--timeout", "500ms", "--config", outagePolicies(t))
	ctx, cancel := context.WithTimeout(context.Background(), *soak)
	defer cancel()
	rest := s.usage()
	var rounds, first sync.WaitGroup
	for _, play := range []func(round int){s.exactly, s.strangers, s.slowLeavers, func(round int) {
		if round%20 == 19 { // longer than the time-out, so that the breaker opens
			redis.Pause()
			time.Sleep(700 * time.Millisecond)
			redis.Resume()
		}
		time.Sleep(100 * time.Millisecond)
	}} {
		first.Add(1)
		rounds.Go(func() {
			begun := sync.OnceFunc(first.Done)
			defer begun()
			for round := 0; ctx.Err() == nil && !t.Failed(); round++ {
				play(round)
				begun()
			}
		})
	}
	select {
	case <-time.After(*soak / 10):
	case <-ctx.Done():
	}
	first.Wait() // on a slow machine a tenth of the time is no load yet
	warm := s.usage()
	rounds.Wait()
	var after usage
	s.until("what the clients left is let go", func() bool {
		after = s.usage()
		return after.goroutines <= rest.goroutines+5 && after.sockets <= rest.sockets+10*runtime.GOMAXPROCS(0)
	})
	if most := 2*warm.resident + 64; after.resident > most {
		t.Errorf("after the load the server has %d MiB, and %d after a tenth of it", after.resident, warm.resident)
	}
	s.end()
}

// exactly asks for more than a new key has, and wants no more than that. While the store is away
// there are errors, after which a unit may be charged or not.
func (s *served) exactly(round int) {
	const count = 20
	question := fmt.Sprintf(`{"key":"exact:%d","limits":["%d/366d"]}`, round, count)
	allowed, unclear := 0, 0
	for _, a := range (crowd{"/v1/consume", s.urls(), []string{question}, 8, 2 * count}.ask()) {
		switch {
		case a.err != nil || a.status != http.StatusServiceUnavailable && a.status != http.StatusOK &&
			a.status != http.StatusTooManyRequests:
			s.t.Errorf("%s: %d %+v, %v", question, a.status, a.document, a.err)
		case a.document.Allowed:
			allowed++
		case a.status == http.StatusServiceUnavailable:
			unclear++
		}
	}
	if allowed > count || allowed+unclear < count {
		s.t.Errorf("%s: %d were allowed, and %d unclear", question, allowed, unclear)
	}
}

// strangers ask about subjects that were never seen before, and what nobody should ask.
func (s *served) strangers(round int) {
	questions := []string{"{", "\xff\xfe", strings.Repeat("[", 20_000), `{"key":"` + strings.Repeat("k", 2000) +
		`","limits":["1/1m"]}`}
	bad := len(questions)
	for i := range 200 {
		policy := []string{"fail", "allow", "deny", "local"}[i%4]
		questions = append(questions,
			fmt.Sprintf(`{"policy":%q,"attributes":{"user":"%d-%d-%s"}}`, policy, round, i, strings.Repeat("é", i)))
	}
	for i, a := range (crowd{"/v1/consume", s.urls(), questions, 16, len(questions)}.ask()) {
		known := a.status == http.StatusOK || a.status == http.StatusTooManyRequests ||
			a.status == http.StatusServiceUnavailable
		if a.err != nil || known == (i < bad) || !known && a.status != http.StatusBadRequest {
			s.t.Errorf("%.80q: %d %+v, %v", questions[i], a.status, a.document, a.err)
		}
	}
}

// slowLeavers begin to ask, and leave before there is an answer.
func (s *served) slowLeavers(round int) {
	var all []net.Conn
	for range 20 {
		connection, err := net.Dial("tcp", s.addresses["http"])
		if err != nil {
			s.t.Error(err)
			return
		}
		all = append(all, connection)
		if _, err := io.WriteString(connection, consumeRequest()[:rand.IntN(len(consumeRequest()))]); err != nil {
			s.t.Error(err)
		}
	}
	for _, connection := range all {
		connection.Close()
	}
	time.Sleep(time.Duration(1+round%10) * time.Millisecond)
}

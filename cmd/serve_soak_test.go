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

var soak = flag.Duration("soak", 3*time.Second, "how long TestServeSoak loads its server")

// usage is what a server process holds.
type usage struct {
	resident   int // MiB
	goroutines int
	files      int // connections to the store not counted: how many of them are kept depends on the load
	store      int // these
}

// usage is what the server holds, whose store listens at an address.
func (s *served) usage(store string) (u usage) {
	s.t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	if err != nil {
		s.t.Fatal(err)
	}
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.cmd.Process.Pid))
	if err != nil {
		s.t.Fatal(err)
	}
	u.store = s.connectionsTo(store)
	u.files = len(files) - u.store
	response, err := http.Get(s.url("admin", "/metrics"))
	if err != nil {
		s.t.Fatal(err)
	}
	defer response.Body.Close()
	metrics, err := io.ReadAll(response.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, read := range []struct {
		to      *int
		pattern string
		from    []byte
	}{{&u.resident, `VmRSS:\s+(\d+) kB`, status}, {&u.goroutines, `(?m)^go_goroutines (\d+)$`, metrics}} {
		found := regexp.MustCompile(read.pattern).FindSubmatch(read.from)
		if found == nil {
			s.t.Fatalf("%s does not match %s", read.pattern, read.from)
		}
		*read.to, _ = strconv.Atoi(string(found[1])) // digits
	}
	u.resident /= 1024
	return u
}

// connectionsTo counts the process' connections to an address of the loopback.
func (s *served) connectionsTo(address string) (n int) {
	s.t.Helper()
	dir := fmt.Sprintf("/proc/%d/", s.cmd.Process.Pid)
	table, err := os.ReadFile(dir + "net/tcp")
	if err != nil {
		s.t.Fatal(err)
	}
	_, text, _ := net.SplitHostPort(address)
	port, err := strconv.Atoi(text)
	if err != nil {
		s.t.Fatal(err)
	}
	sockets := map[string]bool{}
	for line := range strings.Lines(string(table)) { // of the whole machine
		if fields := strings.Fields(line); len(fields) > 9 && fields[2] == fmt.Sprintf("0100007F:%04X", port) {
			sockets["socket:["+fields[9]+"]"] = true
		}
	}
	files, err := os.ReadDir(dir + "fd")
	if err != nil {
		s.t.Fatal(err)
	}
	for _, file := range files {
		if target, err := os.Readlink(dir + "fd/" + file.Name()); err == nil && sockets[target] {
			n++
		}
	}
	return n
}

// mostConnections are what a client of Redis keeps at most: ten for each processor.
var mostConnections = 10 * runtime.GOMAXPROCS(0)

// A server that is asked well and badly for a long time, by clients that come and go, on a store
// that hangs now and then, ends with no more goroutines and files than it began with, no more
// connections to the store than a client keeps, and about the memory that it had after the first
// tenth and the first round of each player; and no limit let more through than it says.
func TestServeSoak(t *testing.T) {
	tier.Full(t, "load tests of seconds")
	redis := redistest.Start(t)
	s := startServe(t, "--store", "redis://"+redis.Addr, "--timeout", "500ms", "--config", outagePolicies(t))
	ctx, cancel := context.WithTimeout(context.Background(), *soak)
	defer cancel()
	rest := s.usage(redis.Addr)
	var rounds, first sync.WaitGroup
	for i, play := range []func(*served, int){(*served).exactly, (*served).strangers, (*served).rubbish, (*served).slowLeavers,
		func(_ *served, round int) {
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
				play(s, round)
				begun()
			}
			t.Logf("player %d has ended", i)
		})
	}
	select {
	case <-time.After(*soak / 10):
	case <-ctx.Done():
	}
	first.Wait() // on a slow machine a tenth of the time is no load yet
	warm := s.usage(redis.Addr)
	rounds.Wait()
	after := s.usage(redis.Addr)
	over := func() bool {
		return after.goroutines > rest.goroutines+5 || after.files > rest.files+5 || after.store > mostConnections
	}
	for end := time.Now().Add(childPatience); over(); after = s.usage(redis.Addr) {
		if time.Now().After(end) {
			t.Fatalf("at rest %+v, and after the load %+v", rest, after)
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Logf("at rest %+v, soon %+v, after the load %+v", rest, warm, after)
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
	for _, a := range (crowd{"/v1/consume", urls([]*served{s}), []string{question}, 8, 2 * count}.ask()) {
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

// strangers ask about subjects and attributes that were never seen before.
func (s *served) strangers(round int) {
	questions := make([]string, 200)
	for i := range questions {
		policy := []string{"fail", "allow", "deny", "local"}[i%4]
		questions[i] = fmt.Sprintf(`{"policy":%q,"attributes":{"user":"%d-%d-%s"}}`, policy, round, i, strings.Repeat("é", i))
	}
	for i, a := range (crowd{"/v1/consume", urls([]*served{s}), questions, 16, len(questions)}.ask()) {
		if a.err != nil || a.status/100 != 2 && a.status != http.StatusTooManyRequests && a.status != http.StatusServiceUnavailable {
			s.t.Errorf("%s: %d %+v, %v", questions[i], a.status, a.document, a.err)
		}
	}
}

// rubbish asks what no client should, and wants each to be refused as the client's mistake.
func (s *served) rubbish(int) {
	questions := []string{
		"", "{", "[]", "\xff\xfe", `{"key":"\ud800"`, `{"key":"a\u0000b","limits":["1/1m"]}`, `{"key":"a","limits":["\xff"]}`,
		"{\"key\":\"\xff\",\"limits\":[\"1/1m\"]}",
		`{"policy":"\u202e"}`,
		`{"policy":"allow","attributes":{"` + strings.Repeat("x", 5000) + `":"1"}}`,
		`{"key":"a","limits":["1/1m"],"cost":-1}`,
		`{"key":"a","limits":["1/1m"],"cost":9223372036854775808}`, strings.Repeat("[", 20_000),
		`{"key":"` + strings.Repeat("k", 2000) + `","limits":["1/1m"]}`, `{"policy":"allow"}`,
	}
	for i, a := range (crowd{"/v1/consume", urls([]*served{s}), questions, 4, len(questions)}.ask()) {
		if a.err != nil || a.status != http.StatusBadRequest || a.document.Error.Message == "" {
			s.t.Errorf("%.80q: %d %+v, %v", questions[i], a.status, a.document, a.err)
		}
	}
}

// slowLeavers begin to ask, in many ways, and leave before there is an answer.
func (s *served) slowLeavers(round int) {
	const request = "POST /v1/consume HTTP/1.1\r\nHost: limits\r\nX-Forwarded-For: %s\r\nContent-Length: 44\r\n\r\n" +
		`{"key":"user:leaves","limits":["10/366d"]}  `
	text := fmt.Sprintf(request, strings.TrimSuffix(strings.Repeat("203.0.113.9, \xff, ", rand.IntN(400)), ", "))
	var all []net.Conn
	for range 20 {
		connection, err := net.Dial("tcp", s.addresses["http"])
		if err != nil {
			s.t.Error(err)
			return
		}
		all = append(all, connection)
		if _, err := io.WriteString(connection, text[:rand.IntN(len(text)+1)]); err != nil {
			s.t.Error(err)
		}
	}
	for _, connection := range all {
		connection.Close()
	}
	time.Sleep(time.Duration(1+round%10) * time.Millisecond)
}

package peers

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/layouts"
	"github.com/limitctl/limitctl/pkg/limiter/redisstore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// process is a library in a separate process, which speaks JSON lines; see node/peers.js.
type process struct {
	in  io.Writer
	out *bufio.Scanner
}

// answer is a library's answer to a request.
type answer struct {
	Allowed   bool
	Used      *int64 // nil if it does not say
	Remaining int64
	ResetMs   float64
	Error     string
}

// startProcess starts a program, which ends with the test.
func startProcess(t *testing.T, program string, args ...string) *process {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	if err := cmd.Start(); err != nil {
		t.Fatalf("%v; make setup installs what the tests run", err)
	}
	t.Cleanup(func() {
		in.Close()
		cmd.Wait()
	})
	return &process{in, bufio.NewScanner(out)}
}

func (p *process) ask(t *testing.T, command map[string]any) (a answer) {
	t.Helper()
	line, err := json.Marshal(command)
	must(t, err)
	if _, err := p.in.Write(append(line, '\n')); err != nil {
		t.Fatal(err)
	}
	if !p.out.Scan() {
		t.Fatal("the library's process has ended; make setup installs its packages")
	}
	if err := json.Unmarshal(p.out.Bytes(), &a); err != nil || a.Error != "" {
		t.Fatalf("%s is answered with %s", line, p.out.Bytes())
	}
	return a
}

// peer is a library and limitctl on one server. Both see clocks that stand still until the test sets them. Then the
// expiries in the server are shortened by the same time.
type peer struct {
	t       *testing.T
	start   func() *process
	process *process
	make    map[string]any
	server  *redistest.Server
	client  *redis.Client
	keys    admin.Keyspace
	limit   store.Limit
	now     time.Time
}

// newPeer starts a library with a layout and a limit.
func newPeer(t *testing.T, layout string, limit store.Limit, program string, script string,
	making map[string]any) *peer {
	t.Helper()
	server := redistest.Start(t)
	client := server.Client()
	p := &peer{t: t, server: server, client: client, limit: limit, make: making,
		now: time.Now().Truncate(time.Millisecond)}
	backend, err := redisstore.New(client, redisstore.WithClock(func() time.Time { return p.now }),
		redisstore.WithBudget(time.Minute))
	must(t, err)
	known, err := layouts.Named(layout)
	must(t, err)
	p.keys = backend.OtherLimiters(layouts.Sources{{Layout: known, Limit: limit}})
	p.start = func() *process { return startProcess(t, program, script, server.Addr) }
	p.restart()
	return p
}

// restart starts the library in a new process, so that it knows only what is in the server.
func (p *peer) restart() {
	p.t.Helper()
	p.process = p.start()
	p.process.ask(p.t, p.make)
	p.advance(0)
}

func (p *peer) take(key string, cost int64) answer {
	p.t.Helper()
	return p.process.ask(p.t, map[string]any{"do": "take", "key": key, "cost": cost})
}

// advance advances the time for all.
func (p *peer) advance(by time.Duration) {
	p.t.Helper()
	ctx := p.t.Context()
	p.now = p.now.Add(by)
	p.process.ask(p.t, map[string]any{"do": "at", "ms": p.now.UnixMilli()})
	for _, storeKey := range p.client.Keys(ctx, "*").Val() {
		if ttl := p.client.PTTL(ctx, storeKey).Val(); ttl > 0 && by > 0 {
			must(p.t, p.client.PExpire(ctx, storeKey, ttl-by).Err())
		}
	}
}

// look returns limitctl's entry for a subject; there is none if it is not in use.
func (p *peer) look(subject string) (entry admin.Entry, has bool) {
	p.t.Helper()
	pattern, err := store.ExactPattern(subject)
	must(p.t, err)
	limit := p.limit
	if limit.Burst == 0 {
		limit.Burst = limit.Count
	}
	unused := admin.Entry{Limit: limit, Decision: store.Decision{Allowed: true, Remaining: limit.Burst}}
	for found, err := range p.keys.Scan(p.t.Context(), admin.Query{Subjects: pattern, Records: true}) {
		must(p.t, err)
		if strings.Contains(found.Key.Name, "@") {
			continue // a window that ended long ago, whose key never expires
		}
		if has {
			p.t.Fatalf("%s has two limits: %+v and %+v", subject, entry, found)
		}
		entry, has = found, true
	}
	if !has {
		return unused, false
	}
	return entry, true
}

// nextExpiry is when the server deletes the first of a subject's keys: its clock does not stand still. What the library
// and limitctl read around that instant need not agree.
func (p *peer) nextExpiry(subject string) time.Time {
	p.t.Helper()
	first := time.Now().Add(time.Hour)
	for _, storeKey := range p.client.Keys(p.t.Context(), "*"+subject+"*").Val() {
		switch ttl, err := p.client.PTTL(p.t.Context(), storeKey).Result(); {
		case err != nil:
			p.t.Fatal(err)
		case ttl >= 0 && time.Now().Add(ttl).Before(first):
			first = time.Now().Add(ttl)
		}
	}
	return first
}

// reset does the same as limitctl reset.
func (p *peer) reset(subject string) {
	p.t.Helper()
	entry, has := p.look(subject)
	if !has {
		return
	}
	if n, _, err := p.keys.Delete(p.t.Context(), entry.Record); err != nil || n != 1 {
		p.t.Fatalf("the deletion of %+v: %d, %v", entry.Record.Members, n, err)
	}
}

// admits takes units one by one until one is denied, and returns how many were allowed.
func (p *peer) admits(subject string) (n int64) {
	p.t.Helper()
	for p.take(subject, 1).Allowed {
		n++
	}
	return n
}

// scenario is a limiter of a library.
type scenario struct {
	kind, layout string
	limit        store.Limit
	cost         int64 // the highest of a request
	options      map[string]any
	// seconds: the library reports whole seconds, rounded up.
	seconds bool
	// waits: the retry after is the end of the window, or of its block, which the library reports.
	waits bool
}

func TestNode(t *testing.T) {
	if _, err := exec.LookPath("node"); err != nil {
		t.Fatal("node is missing; make setup installs it")
	}
	second := func(count, n int64) store.Limit {
		return store.Limit{Count: count, Period: time.Duration(n) * time.Second}
	}
	for _, s := range []scenario{
		{kind: "rate-limiter-flexible", limit: second(7, 60), cost: 3, waits: true},
		{kind: "rate-limiter-flexible", limit: second(3, 60), cost: 1, waits: true,
			options: map[string]any{"blockMs": 90_000}},
		{kind: "rate-limit-redis", limit: second(5, 60), cost: 1, waits: true},
		{kind: "nestjs", limit: second(5, 60), cost: 1, seconds: true},
		{kind: "nestjs", limit: second(4, 60), cost: 1, seconds: true, options: map[string]any{"blockMs": 20_000}},
		// The clock of these stands still, but their keys expire by the server's clock.
		{kind: "upstash-fixed", layout: "upstash", limit: second(6, 3600), cost: 3, waits: true},
		{kind: "upstash-cached", layout: "upstash", limit: second(6, 3600), cost: 1, waits: true,
			options: map[string]any{"memory": true}},
		{kind: "upstash-sliding", layout: "upstash", limit: second(9, 3600), cost: 1},
		{kind: "upstash-bucket", layout: "upstash", limit: store.Limit{Count: 2, Period: 15 * time.Minute, Burst: 8},
			cost: 4},
	} {
		making := map[string]any{"do": "make", "kind": s.kind, "count": s.limit.Count, "burst": s.limit.Burst,
			"periodMs": s.limit.Period.Milliseconds()}
		name := s.kind
		for option, value := range s.options {
			making[option] = value
			name += fmt.Sprintf(" %s %v", option, value)
		}
		if s.layout == "" {
			s.layout = s.kind
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPeer(t, s.layout, s.limit, "node", "node/peers.js", making)
			denied := 0
			for i := range 40 {
				denied += s.sequence(p, i)
			}
			if denied < 40 {
				t.Errorf("only %d requests were denied", denied)
			}
			s.operations(p)
		})
	}
}

// subject is the subject of a sequence: an address, as in express-rate-limit and limitctl, or a key of nestjs.
func (s *scenario) subject(i int) string {
	if s.kind == "nestjs" {
		return fmt.Sprintf("%064x", i)
	}
	return fmt.Sprintf("10.0.0.%d", i)
}

// sequence takes and waits at random, and compares after each step.
func (s *scenario) sequence(p *peer, number int) (denied int) {
	p.t.Helper()
	random := rand.New(rand.NewPCG(uint64(number), 7))
	subject := s.subject(number)
	for range 25 {
		if random.IntN(4) == 0 {
			p.advance(time.Duration(random.Int64N(int64(s.limit.Period)*3/4)) / time.Millisecond * time.Millisecond)
		}
		cost := 1 + random.Int64N(s.cost)
		expiry := p.nextExpiry(subject)
		before, _ := p.look(subject)
		began := time.Now()
		said := p.take(subject, cost)
		after, _ := p.look(subject)
		took := time.Since(began) + time.Millisecond
		if !expiry.After(time.Now().Add(time.Millisecond)) {
			continue // a window or a block may have ended between two of the three
		}
		fits := before.Remaining >= cost && before.Allowed
		if s.kind == "upstash-sliding" {
			fits = before.Allowed // it only checks whether one fits
		}
		if before.Used > 0 && before.ResetAfter <= took || said.ResetMs > 0 &&
			time.Duration(said.ResetMs*float64(time.Millisecond)) <= took {
			continue // or what the request began
		}
		if said.Allowed != fits {
			p.t.Fatalf("step of %s for %d: the library says %+v, limitctl said before %+v", subject, cost, said, before)
		}
		s.compare(p, said, cost, &after, took)
		if !said.Allowed {
			denied++
			if cost == 1 && random.IntN(3) == 0 {
				s.retry(p, subject, &after)
			}
		}
		if p.t.Failed() {
			p.t.FailNow()
		}
	}
	return denied
}

// compare compares limitctl's entry with the library's last answer.
func (s *scenario) compare(p *peer, said answer, cost int64, e *admin.Entry, took time.Duration) {
	p.t.Helper()
	if said.Used != nil && e.Used != *said.Used {
		p.t.Errorf("%d are used by the library, %d by limitctl", *said.Used, e.Used)
	}
	if said.Allowed || cost == 1 {
		if said.Remaining = max(0, said.Remaining); e.Remaining != said.Remaining {
			p.t.Errorf("%d remain by the library, %d by limitctl: %+v", said.Remaining, e.Remaining, e)
		}
	} else if e.Remaining >= cost {
		p.t.Errorf("%d remain by limitctl, and %d were denied", e.Remaining, cost)
	}
	reset := time.Duration(said.ResetMs * float64(time.Millisecond))
	least, most := reset-took, reset
	if s.seconds {
		least -= time.Second
	}
	if e.Used > 0 && (e.ResetAfter < least || e.ResetAfter > most) {
		p.t.Errorf("the library resets in %s, limitctl in %s (%s later)", reset, e.ResetAfter, took)
	}
	if !said.Allowed && cost == 1 && s.waits && (e.RetryAfter < least || e.RetryAfter > most) {
		p.t.Errorf("the library retries in %s, limitctl in %s (%s later)", reset, e.RetryAfter, took)
	}
}

// retry waits until limitctl says that a request is allowed. Shortly before it is denied, if a denied request
// changes nothing.
func (s *scenario) retry(p *peer, subject string, e *admin.Entry) {
	p.t.Helper()
	wait := e.RetryAfter.Truncate(time.Millisecond)
	if e.RetryAfter > wait {
		wait += time.Millisecond
	}
	switch s.kind {
	case "upstash-sliding", "upstash-bucket":
		p.advance(wait - time.Millisecond)
		if said := p.take(subject, 1); said.Allowed {
			p.t.Errorf("a millisecond before limitctl says %s the library admits: %+v", e.RetryAfter, said)
		}
		p.advance(time.Millisecond)
	default:
		p.advance(wait)
	}
	if said := p.take(subject, 1); !said.Allowed {
		p.t.Errorf("after the %s that limitctl says the library denies: %+v", e.RetryAfter, said)
	}
}

// operations compares an operator's changes with what the library then allows.
func (s *scenario) operations(p *peer) {
	p.t.Helper()
	for i := range int64(8) {
		subject := s.subject(100 + int(i))
		if n := p.admits(subject); n != p.limit.Capacity() {
			p.t.Fatalf("%d of %d were admitted at first", n, p.limit.Capacity())
		}
		p.reset(subject)
		if s.options["memory"] != nil {
			p.restart()
		}
		if n := p.admits(subject); n != p.limit.Capacity() {
			p.t.Errorf("%d of %d were admitted after a reset", n, p.limit.Capacity())
		}
	}
}

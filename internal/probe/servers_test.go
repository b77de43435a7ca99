package probe

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/limitctl/limitctl/internal/endpoint"
	"github.com/limitctl/limitctl/internal/probe/headers"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// decider is a simulated limiter: it answers a request of a subject at an instant.
type decider interface {
	decide(subject string, now store.Instant) store.Decision
}

// server is a simulated endpoint, in virtual time. It keeps a limit and tells of it, or lies.
type server struct {
	decider
	shortest, longest time.Duration // of an answer
	seed              uint64
	limit             store.Limit   // that it tells of
	dialect           string        // empty is Retry-After alone, and "none" nothing
	status            int           // of a denial
	ahead             time.Duration // by which its clock is
	unlike            bool          // a reset is when there is more where all unused is usual, and the other way round
	// lie changes what is told of an answer.
	lie func(h http.Header, d *store.Decision, now time.Time)

	mutex  sync.Mutex
	random *rand.Rand
}

func (s *server) Connect(context.Context) error { return nil }

func (s *server) Places() (subject, cost bool) { return true, true }

func (s *server) Describe() string { return "simulated" }

func (s *server) Openings() endpoint.Openings { return endpoint.Openings{} }

func (s *server) Close() error { return nil }

func (s *server) chance() float64 {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.random.Float64()
}

func (s *server) Send(_ context.Context, subject string, _ int64, answer *endpoint.Answer) error {
	latency := s.shortest + time.Duration(s.chance()*s.chance()*float64(s.longest-s.shortest))
	there := time.Duration(s.chance() * float64(latency))
	answer.Sent, answer.Header = time.Now(), http.Header{}
	time.Sleep(there)
	s.mutex.Lock()
	d := s.decide(subject, store.InstantOf(time.Now()))
	s.tell(answer.Header, s.dialect, &s.limit, &d, time.Now().Add(s.ahead))
	if s.lie != nil {
		s.lie(answer.Header, &d, time.Now())
	}
	s.mutex.Unlock()
	time.Sleep(latency - there)
	answer.Answered, answer.Status, answer.Outcome = time.Now(), 200, endpoint.Allowed
	if !d.Allowed {
		answer.Status, answer.Outcome = s.status, endpoint.Denied
	}
	return nil
}

// tell writes what an honest service tells, in a dialect.
func (s *server) tell(h http.Header, dialect string, limit *store.Limit, d *store.Decision, now time.Time) {
	if d.RetryAfter > 0 && dialect != "none" {
		h.Set("Retry-After", strconv.FormatInt(ceil(d.RetryAfter), 10))
	}
	if dialect == "" {
		return
	}
	reset := max(d.ResetAfter, d.RetryAfter)
	more := reset
	if !d.Allowed {
		more = d.RetryAfter
	}
	if s.unlike {
		more, reset = reset, more
	}
	count, left, window := limit.Count, d.Remaining, ceil(limit.Period)
	if limit.Period < time.Second {
		count, window = count*int64(time.Second)/int64(limit.Period), 1
	}
	three := func(prefix, limit, reset string) {
		h.Set(prefix+"Limit", limit)
		h.Set(prefix+"Remaining", strconv.FormatInt(left, 10))
		h.Set(prefix+"Reset", reset)
	}
	resetSeconds := strconv.FormatInt(ceil(reset), 10)
	capacity := strconv.FormatInt(limit.Capacity(), 10)
	unix := strconv.FormatInt(ceil(time.Duration(now.UnixNano())+reset), 10)
	switch dialect {
	case headers.DialectDraft8:
		h.Set("RateLimit-Policy", fmt.Sprintf(`"default";q=%d;w=%d`, count, window))
		h.Set("RateLimit", fmt.Sprintf(`"default";r=%d;t=%d`, left, ceil(more)))
	case headers.DialectDraft7:
		h.Set("RateLimit-Policy", fmt.Sprintf("%d;w=%d", count, window))
		h.Set("RateLimit", fmt.Sprintf("limit=%d, remaining=%d, reset=%d", count, left, ceil(more)))
	case headers.DialectDraft6:
		three("RateLimit-", fmt.Sprintf("%d, %d;w=%d", count, count, window), resetSeconds)
	case "express-6":
		h.Set("RateLimit-Policy", fmt.Sprintf("%d;w=%d", count, window))
		three("RateLimit-", strconv.FormatInt(count, 10), resetSeconds)
	case headers.DialectX:
		three("X-RateLimit-", capacity, resetSeconds)
	case "x-unix":
		three("X-RateLimit-", capacity, unix)
	case "envoy":
		three("X-RateLimit-", fmt.Sprintf(`%d, %d;w=%d;name="x"`, count, count, window), resetSeconds)
	case "laravel":
		three("X-RateLimit-", capacity, unix)
		if d.Allowed {
			h.Del("X-RateLimit-Reset")
		}
	case "limitctl":
		s.tell(h, headers.DialectDraft8, limit, d, now)
		s.tell(h, "x-unix", limit, d, now)
	case "date":
		h.Set("Date", now.UTC().Format(http.TimeFormat))
		if !d.Allowed {
			h.Set("Retry-After", now.Add(d.RetryAfter+time.Second-1).UTC().Format(http.TimeFormat))
		}
	}
}

func ceil(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// ours decides as limitctl does, but for what it can do wrong.
type ours struct {
	limit  store.Limit
	states map[string]*store.State

	shared bool          // all subjects are one
	phase  time.Duration // of its windows
}

func newOurs(t *testing.T, text string) *ours {
	return &ours{limit: parse(t, text), states: make(map[string]*store.State)}
}

func (o *ours) decide(subject string, now store.Instant) (d store.Decision) {
	if o.shared {
		subject = "all"
	}
	state := o.states[subject]
	if state == nil {
		state = new(store.State)
		o.states[subject] = state
	}
	request := store.Request{Limit: o.limit, Cost: 1}
	store.DecideOne(store.Take, &request, state, &d, store.InstantOf(now.Time().Add(-o.phase)))
	return d
}

// simulated is a server whose answers take up to 3 ms.
func simulated(d decider) *server {
	return &server{decider: d, shortest: 100 * time.Microsecond, longest: 3 * time.Millisecond, seed: 7, status: 429}
}

// newServed is one that keeps a limit and tells of it in a dialect.
func newServed(t *testing.T, limit, dialect string, seed uint64) (*server, *ours) {
	o := newOurs(t, limit)
	s := simulated(o)
	s.limit, s.dialect, s.seed = o.limit, dialect, seed
	return s, o
}

// begun calls do in virtual time, at an instant that depends on the seed.
func (s *server) begun(t *testing.T, do func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s.random = rand.New(rand.NewPCG(s.seed, 7))
		const years = 10 * 366 * 24 * time.Hour // after 2000, so that unix times are told from durations
		time.Sleep(years + time.Duration(s.chance()*float64(time.Hour)))
		do(t)
	})
}

// run probes a server.
func run(t *testing.T, s *server, config Config) (r *Result) {
	t.Helper()
	s.begun(t, func(t *testing.T) {
		if config.Client == nil {
			config.Client = s
		}
		var err error
		if r, err = Run(t.Context(), &config); err != nil {
			t.Errorf("error %v", err)
		}
	})
	return r
}

// hold holds a server to a limit.
func hold(t *testing.T, s *server, limit string) *Result {
	t.Helper()
	return run(t, s, Config{Limit: parse(t, limit), Quota: 2000, MaxTime: time.Hour})
}

func (r *Result) check(name string) *Check {
	for i := range r.Checks {
		if r.Checks[i].Name == name {
			return &r.Checks[i]
		}
	}
	return nil
}

func parse(t *testing.T, text string) store.Limit {
	t.Helper()
	limit, err := store.ParseLimit(text)
	if err == nil {
		limit, err = limit.Normalize()
	}
	if err != nil {
		t.Fatal(err)
	}
	return limit
}

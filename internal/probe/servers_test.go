package probe

import (
	"context"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/limitctl/limitctl/internal/endpoint"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// decider is a simulated limiter: it answers a request of a subject at an instant.
type decider interface {
	decide(subject string, now store.Instant) bool
	// wait is the wait of the last denial; 0 is none.
	wait() time.Duration
}

// server is a simulated endpoint, in virtual time.
type server struct {
	decider
	shortest, longest time.Duration // of an answer
	mutex             sync.Mutex
	random            *rand.Rand
	sent              int
}

func (s *server) Connect(context.Context) error { return nil }

func (s *server) Places() (subject, cost bool) { return true, true }

func (s *server) Describe() string { return "simulated" }

func (s *server) Close() error { return nil }

func (s *server) chance() float64 {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.random.Float64()
}

func (s *server) Send(_ context.Context, subject string, _ int64, answer *endpoint.Answer) error {
	s.mutex.Lock()
	s.sent++
	s.mutex.Unlock()
	latency := s.shortest + time.Duration(s.chance()*s.chance()*float64(s.longest-s.shortest))
	there := time.Duration(s.chance() * float64(latency))
	answer.Sent = time.Now()
	time.Sleep(there)
	s.mutex.Lock()
	allowed := s.decide(subject, store.InstantOf(time.Now()))
	wait := s.wait()
	s.mutex.Unlock()
	time.Sleep(latency - there)
	answer.Answered = time.Now()
	answer.Status, answer.Outcome = 200, endpoint.Allowed
	if !allowed {
		answer.Status, answer.Outcome = 429, endpoint.Denied
		if wait > 0 {
			answer.Header = http.Header{"Retry-After": {strconv.FormatInt(ceil(wait), 10)}}
		}
	}
	return nil
}

// ours decides as limitctl does.
type ours struct {
	limit  store.Limit
	states map[string]*store.State
	retry  time.Duration
}

func (o *ours) wait() time.Duration { return o.retry }

func newOurs(t *testing.T, text string) *ours {
	return &ours{limit: parse(t, text), states: make(map[string]*store.State)}
}

func (o *ours) decide(subject string, now store.Instant) bool {
	state := o.states[subject]
	if state == nil {
		state = new(store.State)
		o.states[subject] = state
	}
	request, decision := store.Request{Limit: o.limit, Cost: 1}, store.Decision{}
	store.DecideOne(store.Take, &request, state, &decision, now)
	o.retry = decision.RetryAfter
	return decision.Allowed
}

// run probes a server in virtual time.
func run(t *testing.T, s *server, config Config) (r *Result) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s.random = rand.New(rand.NewPCG(7, 7))
		time.Sleep(time.Duration(s.chance() * float64(time.Hour)))
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

// simulated is a server whose answers take up to 3 ms.
func simulated(d decider) *server {
	return &server{decider: d, shortest: 100 * time.Microsecond, longest: 3 * time.Millisecond}
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

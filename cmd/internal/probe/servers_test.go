package probe

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/endpoint"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// decider is a simulated limiter: it answers a request of a subject at an instant.
type decider interface {
	decide(subject string, now store.Instant) bool
}

// server is a simulated endpoint, in virtual time.
type server struct {
	decider
	shortest, longest time.Duration // of an answer
	errors            float64       // share of requests that fail; half of them are counted
	deniedStatus      int           // 0 is 429
	skew              time.Duration
	concurrent        int // the most requests under way at once; 0 is no limit

	mutex  sync.Mutex
	random *rand.Rand
	sent   int
	inside int
}

func (s *server) Connect(context.Context) error { return nil }

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
	failed, counted := s.chance() < s.errors, s.chance() < 0.5
	allowed := true
	if !failed || counted {
		s.mutex.Lock()
		allowed = s.decide(subject, store.InstantOf(time.Now().Add(s.skew)))
		s.inside++
		allowed = allowed && (s.concurrent == 0 || s.inside <= s.concurrent)
		s.mutex.Unlock()
	}
	time.Sleep(latency - there)
	if !failed || counted {
		s.mutex.Lock()
		s.inside--
		s.mutex.Unlock()
	}
	answer.Answered = time.Now()
	denied := s.deniedStatus
	if denied == 0 {
		denied = 429
	}
	switch {
	case failed:
		answer.Status, answer.Outcome = 500, endpoint.Failed
	case allowed:
		answer.Status, answer.Outcome = 200, endpoint.Allowed
	default:
		answer.Status, answer.Outcome = denied, endpoint.Allowed
		if denied == 429 {
			answer.Outcome = endpoint.Denied
		} else if denied >= 500 {
			answer.Outcome = endpoint.Failed
		}
	}
	return nil
}

// ours decides as limitctl does.
type ours struct {
	limit  store.Limit
	states map[string]*store.State
	shared bool
	tick   store.Instant
	cost   int64 // of the request; 0 is 1
}

func newOurs(t testing.TB, text string) *ours {
	limit, err := store.ParseLimit(text)
	if err != nil {
		t.Fatal(err)
	}
	limit, err = limit.Normalize()
	if err != nil {
		t.Fatal(err)
	}
	return &ours{limit: limit, states: make(map[string]*store.State)}
}

func (o *ours) decide(subject string, now store.Instant) bool {
	if o.shared {
		subject = ""
	}
	if o.tick > 0 {
		now -= now % o.tick
	}
	state := o.states[subject]
	if state == nil {
		state = new(store.State)
		o.states[subject] = state
	}
	request, decision := store.Request{Limit: o.limit, Cost: max(1, o.cost)}, store.Decision{}
	store.DecideOne(store.Take, &request, state, &decision, now)
	return decision.Allowed
}

// discover discovers a server's limit in virtual time.
func discover(t *testing.T, s *server, config Config, seed uint64) (d *Discovery, took time.Duration) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s.random = rand.New(rand.NewPCG(7, seed))
		time.Sleep(time.Duration(s.chance() * float64(time.Hour)))
		begin := time.Now()
		config.Client = s
		var err error
		if d, err = discoverLimit(t.Context(), &config); err != nil && !errors.Is(err, ErrNoLimit) {
			t.Errorf("error %v", err)
		}
		took = time.Since(begin)
	})
	return d, took
}

package test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/limitctl/limitctl/internal/endpoint"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// asked is a request as a service sees it. A handler may change what the handlers within see of it.
type asked struct {
	*service
	subject    string
	connection int // the number of its connection, from 1
	ahead      time.Duration
}

// answered is the answer to a request.
type answered struct {
	status int
	header http.Header
	late   time.Duration // the answer comes so much after the decision
	store.Decision
}

// handler answers a request. One runs at a time, apart from [asked.pause]. Defects are handlers around others.
type handler func(q *asked, a *answered)

// now is the instant by the clock of the service.
func (q *asked) now() time.Time { return time.Now().Add(q.ahead) }

// pause lets other requests be handled meanwhile.
func (q *asked) pause(d time.Duration) {
	q.mu.Unlock()
	time.Sleep(d)
	q.mu.Lock()
}

// chance reports true for a share of all calls.
func (q *asked) chance(share float64) bool { return q.random.Float64() < share }

// service is an HTTP service in virtual time with its client: each request and each answer takes a while, as the seed
// says.
type service struct {
	handler
	shortest, longest time.Duration // of the way there, and of the way back

	mu     sync.Mutex
	random *rand.Rand
	under  int   // requests under way
	opened int   // connections
	free   []int // those of them that are free
	// due and every are the schedule of an open loop, if there is one: timers of loadgen know no virtual time.
	due   time.Time
	every time.Duration
}

// newService begins at an instant that the seed says.
func newService(h handler, seed uint64) *service {
	s := &service{handler: h, shortest: 50 * time.Microsecond, longest: 2 * time.Millisecond,
		random: rand.New(rand.NewPCG(27, seed))}
	// A bubble begins in 2000, which is too early for a Unix time in a header.
	time.Sleep(time.Until(time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)) + time.Duration(
		s.random.Int64N(int64(time.Hour))))
	return s
}

// way is how long one way takes: mostly little, as on a good network.
func (s *service) way() time.Duration {
	return s.shortest + time.Duration(s.random.Float64()*s.random.Float64()*float64(s.longest-s.shortest))
}

var errLate = errors.Join(store.ErrOutcomeUnknown, errors.New("the answer did not come in time"),
	context.DeadlineExceeded)

func (*service) Connect(context.Context) error { return nil }

func (*service) Describe() string { return "http://127.0.0.1/?user={subject}" }

func (*service) Openings() endpoint.Openings { return endpoint.Openings{} }

func (*service) Close() error { return nil }

func (*service) Places() (subject, cost bool) { return true, false }

func (s *service) Send(ctx context.Context, subject string, _ int64, answer *endpoint.Answer) error {
	if s.every > 0 {
		s.mu.Lock()
		due := s.due
		s.due = due.Add(s.every)
		s.mu.Unlock()
		time.Sleep(time.Until(due))
	}
	*answer = endpoint.Answer{Sent: time.Now()}
	s.mu.Lock()
	q := &asked{service: s, subject: subject, connection: s.connect()}
	a := &answered{status: http.StatusOK, header: http.Header{}}
	there, back := s.way(), s.way()
	s.mu.Unlock()
	time.Sleep(there)
	s.mu.Lock()
	s.under++
	s.handler(q, a)
	s.mu.Unlock()
	answered := time.NewTimer(back + a.late)
	defer answered.Stop()
	var err error
	select {
	case <-ctx.Done():
		err = errLate
	case <-answered.C:
	}
	s.mu.Lock()
	s.under--
	s.free = append(s.free, q.connection)
	s.mu.Unlock()
	answer.Answered, answer.Status, answer.Header = time.Now(), a.status, a.header
	switch {
	case err != nil:
	case a.status == http.StatusTooManyRequests:
		answer.Outcome = endpoint.Denied
	case a.status >= http.StatusInternalServerError:
		answer.Outcome = endpoint.Failed
	}
	return err
}

// connect returns the connection that was used last and is free, or a new one.
func (s *service) connect() int {
	if n := len(s.free); n > 0 {
		last := s.free[n-1]
		s.free = s.free[:n-1]
		return last
	}
	s.opened++
	return s.opened
}

func limitOf(text string) store.Limit {
	limit, err := store.ParseLimit(text)
	if err == nil {
		limit, err = limit.Normalize()
	}
	if err != nil {
		panic(err)
	}
	return limit
}

// memory is what a limiter remembers of its subjects.
type memory map[string]*store.State

func (m memory) of(subject string) *store.State {
	if m[subject] == nil {
		m[subject] = new(store.State)
	}
	return m[subject]
}

// keeps is a limiter that is right. It tells nothing but the status.
func keeps(limit string) handler { return memory{}.keeps(limitOf(limit)) }

func (m memory) keeps(limit store.Limit) handler {
	return func(q *asked, a *answered) {
		request := store.Request{Limit: limit, Cost: 1}
		store.DecideOne(store.Take, &request, m.of(q.subject), &a.Decision, store.InstantOf(q.now()))
		a.status = http.StatusOK
		if !a.Allowed {
			a.status = http.StatusTooManyRequests
		}
	}
}

// seconds are whole seconds, rounded up.
func seconds(d time.Duration) string {
	return strconv.FormatInt(int64((d+time.Second-1)/time.Second), 10)
}

// retries adds Retry-After to denials.
func retries(h handler) handler {
	return func(q *asked, a *answered) {
		if h(q, a); a.status == http.StatusTooManyRequests {
			a.header.Set("Retry-After", seconds(a.RetryAfter))
		}
	}
}

// tells adds what is true of a limit: X-RateLimit fields with a reset in seconds, and Retry-After.
func tells(limit string, h handler) handler {
	l := limitOf(limit)
	h = retries(h)
	return func(q *asked, a *answered) {
		h(q, a)
		a.header.Set("X-RateLimit-Limit", fmt.Sprint(l.Capacity()))
		a.header.Set("X-RateLimit-Remaining", fmt.Sprint(a.Remaining))
		a.header.Set("X-RateLimit-Reset", seconds(max(a.ResetAfter, a.RetryAfter)))
	}
}

// usual is a limiter that is right, and says so.
func usual(limit string) handler { return tells(limit, keeps(limit)) }

// named counts requests by another name than their subject's.
func named(name func(q *asked) string, h handler) handler {
	return func(q *asked, a *answered) {
		before := q.subject
		q.subject = name(q)
		h(q, a)
		q.subject = before
	}
}

// freely lets in what is free without counting it.
func freely(free func(q *asked) bool, h handler) handler {
	return func(q *asked, a *answered) {
		if !free(q) {
			h(q, a)
		}
	}
}

// early asks a limiter by a clock that is ahead, or back.
func early(ahead func(q *asked) time.Duration, h handler) handler {
	return func(q *asked, a *answered) {
		q.ahead += ahead(q)
		h(q, a)
	}
}

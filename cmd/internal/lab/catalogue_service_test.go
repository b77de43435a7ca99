package lab

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/endpoint"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// asked is a request as a service sees it. A handler may change what the handlers within see of it.
type asked struct {
	*service
	subject, method string
	connection      int // the number of its connection, from 1
	cost            int64
	ahead           time.Duration // of the clock that decides
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

// service is an HTTP service in virtual time: each request and each answer takes a while, as the seed says.
type service struct {
	handler
	shortest, longest time.Duration // of the way there, and of the way back

	mu     sync.Mutex
	random *rand.Rand
	under  int // requests under way
}

// newService begins at an instant that the seed says.
func newService(h handler, seed uint64) *service {
	s := &service{handler: h, shortest: 50 * time.Microsecond, longest: 2 * time.Millisecond, random: rand.New(rand.NewPCG(27, seed))}
	// A bubble begins in 2000, which is too early for a Unix time in a header.
	time.Sleep(time.Until(time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)) + time.Duration(s.random.Int64N(int64(time.Hour))))
	return s
}

// way is how long one way takes: mostly little, as on a good network.
func (s *service) way() time.Duration {
	return s.shortest + time.Duration(s.random.Float64()*s.random.Float64()*float64(s.longest-s.shortest))
}

// connections are those that the clients of a service have opened, and those that are free.
type connections struct {
	opened int
	free   []int
}

// client sends the requests of one method to a service.
type client struct {
	*service
	*connections
	method string
	// pace, if set, is the schedule of an open loop: its timers are those of the machine, which know no virtual time.
	pace *pace
}

// newClient is a client of a service that GETs.
func newClient(h handler, seed uint64) *client {
	return &client{service: newService(h, seed), connections: &connections{}, method: http.MethodGet}
}

// pace is when requests are due.
type pace struct {
	next  time.Time
	every time.Duration
}

var errLate = errors.Join(store.ErrOutcomeUnknown, errors.New("the answer did not come in time"), context.DeadlineExceeded)

// Connect implements [endpoint.Client].
func (*client) Connect(context.Context) error { return nil }

// Describe implements [endpoint.Client].
func (*client) Describe() string { return "http://127.0.0.1/?user={subject}" }

// Close implements [endpoint.Client].
func (*client) Close() error { return nil }

// Places implements [endpoint.Templated].
func (c *client) Places() (subject, cost bool) { return true, false }

// Send implements [endpoint.Client].
func (c *client) Send(ctx context.Context, subject string, cost int64, answer *endpoint.Answer) error {
	if c.pace != nil {
		c.mu.Lock()
		due := c.pace.next
		c.pace.next = due.Add(c.pace.every)
		c.mu.Unlock()
		time.Sleep(time.Until(due))
	}
	answer.Sent = time.Now()
	c.mu.Lock()
	q := &asked{service: c.service, subject: subject, method: c.method, cost: cost, connection: c.connect()}
	a := &answered{status: http.StatusOK, header: http.Header{}}
	there, back := c.way(), c.way()
	c.mu.Unlock()
	time.Sleep(there)
	c.mu.Lock()
	c.under++
	c.handler(q, a)
	c.mu.Unlock()
	err := sleep(ctx, back+a.late)
	c.mu.Lock()
	c.under--
	c.free = append(c.free, q.connection)
	c.mu.Unlock()
	answer.Answered, answer.Status, answer.Header = time.Now(), a.status, a.header
	switch {
	case err != nil:
		return errLate
	case a.status == http.StatusTooManyRequests:
		answer.Outcome = endpoint.Denied
	case a.status >= http.StatusInternalServerError:
		answer.Outcome = endpoint.Failed
	}
	return nil
}

// connect returns the connection that was used last and is free, or a new one.
func (c *client) connect() int {
	if n := len(c.free); n > 0 {
		last := c.free[n-1]
		c.free = c.free[:n-1]
		return last
	}
	c.opened++
	return c.opened
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
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
		request := store.Request{Limit: limit, Cost: q.cost}
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

// The dialects of a service beside Retry-After.
const (
	plainly  = "x-ratelimit"      // with a reset in seconds
	byUnix   = "x-ratelimit-unix" // with a reset at a Unix time
	draft8   = "draft-8"
	nothing  = ""
	asServer = "limitctl" // what limitctl's own server says
)

// tells adds what is true of a limit in a dialect, and Retry-After.
func tells(dialect, limit string, h handler) handler {
	l := limitOf(limit)
	h = retries(h)
	return func(q *asked, a *answered) {
		h(q, a)
		reset := max(a.ResetAfter, a.RetryAfter)
		three := func(at string) {
			a.header.Set("X-RateLimit-Limit", fmt.Sprint(l.Capacity()))
			a.header.Set("X-RateLimit-Remaining", fmt.Sprint(a.Remaining))
			a.header.Set("X-RateLimit-Reset", at)
		}
		if dialect == plainly {
			three(seconds(reset))
		}
		if dialect == byUnix || dialect == asServer {
			three(seconds(time.Duration(q.now().UnixNano()) + reset))
		}
		if dialect == draft8 || dialect == asServer {
			if a.status == http.StatusTooManyRequests {
				reset = a.RetryAfter
			}
			a.header.Set("RateLimit-Policy", fmt.Sprintf(`"default";q=%d;w=%s`, l.Count, seconds(l.Period)))
			a.header.Set("RateLimit", fmt.Sprintf(`"default";r=%d;t=%s`, a.Remaining, seconds(reset)))
		}
	}
}

// usual is a limiter that is right, and says so.
func usual(limit string) handler { return tells(plainly, limit, keeps(limit)) }

// named counts requests by another name than their subject's.
func named(name func(q *asked) string, h handler) handler {
	return func(q *asked, a *answered) {
		before := q.subject
		q.subject = name(q)
		h(q, a)
		q.subject = before
	}
}

// freely lets in what is free, without counting it, and says of it what is true of a new subject.
func freely(free func(q *asked) bool, h handler) handler {
	return func(q *asked, a *answered) {
		if !free(q) {
			h(q, a)
		}
	}
}

// saying changes what answers say.
func saying(change func(q *asked, a *answered), h handler) handler {
	return func(q *asked, a *answered) {
		h(q, a)
		change(q, a)
	}
}

// sets changes one field of the answers that have it.
func sets(field string, value func(q *asked, a *answered, was string) string, h handler) handler {
	return saying(func(q *asked, a *answered) {
		if was := a.header.Get(field); was != "" {
			if a.header.Del(field); value != nil {
				a.header.Set(field, value(q, a, was))
			}
		}
	}, h)
}

package probe

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/limitctl/limitctl/internal/endpoint"
	"github.com/limitctl/limitctl/internal/probe/headers"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// testClock is a clock that only waits when it is asked to.
type testClock struct{ now time.Time }

func (c *testClock) Now() time.Time { return c.now }

func (c *testClock) Sleep(ctx context.Context, d time.Duration) error {
	c.now = c.now.Add(max(0, d))
	return ctx.Err()
}

// served is an HTTP service in virtual time that keeps a limit and tells of it, or lies.
type served struct {
	clock   *testClock
	limit   store.Limit
	dialect string
	random  *rand.Rand
	states  map[string]*store.State

	// What it can do wrong.
	status        int           // of a denial
	shared        bool          // all subjects are one
	phase         time.Duration // of its windows
	ahead         time.Duration // by which its clock is
	unlike        bool          // a reset is when there is more where all unused is usual, and the other way round
	chargeDenied  bool
	neverRecovers bool
	extraAfter    int64 // units too many once the limit was reached
	denials       int
	// lie changes what is told of an answer. n is its number from 1.
	lie func(h http.Header, n int, d *store.Decision, now time.Time)
	n   int
}

func newServed(limit, dialect string, seed uint64) *served {
	l, err := store.ParseLimit(limit)
	if err == nil {
		l, err = l.Normalize()
	}
	if err != nil {
		panic(err)
	}
	return &served{clock: &testClock{now: time.Unix(1_700_000_000, int64(seed*137_123_457)%1e9)}, limit: l, dialect: dialect, status: 429,
		random: rand.New(rand.NewPCG(seed, 7)), states: make(map[string]*store.State)}
}

func (s *served) Connect(context.Context) error { return nil }

func (s *served) Describe() string { return "http://127.0.0.1/" }

func (s *served) Close() error { return nil }

func (s *served) Places() (subject, cost bool) { return true, false }

func (s *served) travel() {
	s.clock.now = s.clock.now.Add(time.Duration(s.random.IntN(900)+50) * time.Microsecond)
}

func (s *served) instant(t time.Time) store.Instant { return store.InstantOf(t.Add(-s.phase)) }

func (s *served) Send(ctx context.Context, subject string, cost int64, answer *endpoint.Answer) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	answer.Sent = s.clock.now
	s.travel()
	if s.shared {
		subject = "all"
	}
	state := s.states[subject]
	if state == nil {
		state = new(store.State)
		s.states[subject] = state
	}
	now, limit := s.instant(s.clock.now), s.limit
	if s.denials > 0 {
		limit.Count += s.extraAfter
		limit.Burst += s.extraAfter
	}
	req, d := store.Request{Limit: limit, Cost: cost}, store.Decision{}
	store.DecideOne(store.Take, &req, state, &d, now)
	if s.neverRecovers && s.denials > 0 && d.Allowed {
		d.Allowed, d.RetryAfter = false, time.Second
	}
	if !d.Allowed {
		s.denials++
		if s.chargeDenied {
			state.Charge(limit, cost, now)
			d = state.Answer(&req, now, false)
		}
	}
	s.n++
	answer.Header = http.Header{}
	s.tell(answer.Header, s.dialect, &limit, &d, s.clock.now.Add(s.ahead))
	if s.lie != nil {
		s.lie(answer.Header, s.n, &d, s.clock.now)
	}
	s.travel()
	answer.Answered = s.clock.now
	answer.Status, answer.Outcome = 200, endpoint.Allowed
	if !d.Allowed {
		answer.Status, answer.Outcome = s.status, endpoint.Denied
	}
	return nil
}

// tell writes what an honest service tells, in a dialect.
func (s *served) tell(h http.Header, dialect string, limit *store.Limit, d *store.Decision, now time.Time) {
	if !d.Allowed && dialect != "none" {
		h.Set("Retry-After", strconv.FormatInt(ceil(d.RetryAfter), 10))
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
	case headers.DialectKong:
		three("RateLimit-", strconv.FormatInt(limit.Count, 10), resetSeconds)
		if limit.Period == time.Minute {
			h.Set("X-RateLimit-Limit-Minute", strconv.FormatInt(limit.Count, 10))
			h.Set("X-RateLimit-Remaining-Minute", strconv.FormatInt(left, 10))
		}
	case headers.DialectX:
		three("X-RateLimit-", capacity, resetSeconds)
	case headers.DialectXUnix:
		three("X-RateLimit-", capacity, unix)
	case headers.DialectGitHub:
		three("X-RateLimit-", capacity, unix)
		h.Set("X-RateLimit-Used", strconv.FormatInt(d.Used, 10))
	case headers.DialectAPISIX:
		three("X-RateLimit-", capacity, fmt.Sprintf("%.2f", reset.Seconds()))
	case headers.DialectEnvoy:
		three("X-RateLimit-", fmt.Sprintf(`%d, %d;w=%d;name="x"`, count, count, window), resetSeconds)
	case "envoy-unix":
		three("X-RateLimit-", fmt.Sprintf("%d, %d;w=%d", count, count, window), unix)
	case "laravel":
		three("X-RateLimit-", capacity, unix)
		if d.Allowed {
			h.Del("X-RateLimit-Reset")
		}
	case "limitctl":
		s.tell(h, headers.DialectDraft8, limit, d, now)
		s.tell(h, headers.DialectXUnix, limit, d, now)
	case "date":
		h.Set("Date", now.UTC().Format(http.TimeFormat))
		if !d.Allowed {
			h.Set("Retry-After", now.Add(d.RetryAfter+time.Second-1).UTC().Format(http.TimeFormat))
		}
	}
}

func ceil(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// hold runs a probe that holds a service to a limit.
func hold(s *served, limit string) (*Result, error) {
	l, err := store.ParseLimit(limit)
	if err != nil {
		panic(err)
	}
	return Run(context.Background(), &Config{Client: s, Limit: l, Quota: 2000, MaxTime: time.Hour, Clock: s.clock})
}

func (r *Result) check(name string) *Check {
	for i := range r.Checks {
		if r.Checks[i].Name == name {
			return &r.Checks[i]
		}
	}
	return nil
}

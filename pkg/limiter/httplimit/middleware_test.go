package httplimit_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/limitctl/limitctl/internal/layers"
	"github.com/limitctl/limitctl/internal/tier"
	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/httplimit"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// policyOf has limits named a, b and so on, for each user.
func policyOf(t *testing.T, limits ...string) *policy.Policy {
	t.Helper()
	p := &policy.Policy{Name: "p"}
	for i, text := range limits {
		limit, err := store.ParseLimit(text)
		tier.Must(t, err)
		each := limiter.LimitOf(string(rune('a'+i)), limit)
		p.Limits = append(p.Limits, policy.Limit{Limit: each, By: []string{"user"}})
	}
	return p
}

// service is a handler behind a middleware, and counts how often it was reached.
type service struct {
	http.Handler
	reached atomic.Int64
	last    atomic.Pointer[httplimit.Outcome] // what the handler saw
}

func byUser() httplimit.Rule {
	return httplimit.Rule{Attributes: map[string]httplimit.Source{"user": httplimit.MustSource("header:X-User")}}
}

// door returns a limiter that decides with backend.
func door(t testing.TB, backend store.Store) *limiter.Limiter {
	t.Helper()
	limits, err := limiter.New(backend)
	tier.Must(t, err)
	return limits
}

func newService(t *testing.T, p *policy.Policy, backend store.Store, options httplimit.Options) *service {
	t.Helper()
	if options.Rule.Attributes == nil {
		options.Rule.Attributes = byUser().Attributes
	}
	m, err := httplimit.New(door(t, backend), p, options)
	tier.Must(t, err)
	s := &service{}
	s.Handler = m.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		s.reached.Add(1)
		s.last.Store(httplimit.OutcomeOf(r.Context()))
	}))
	return s
}

func (s *service) get(fields ...string) *http.Response {
	r := httptest.NewRequest("GET", "/", nil)
	for i := 0; i < len(fields); i += 2 {
		r.Header.Add(fields[i], fields[i+1])
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w.Result()
}

// problemOf parses the body of an error answer.
func problemOf(t *testing.T, response *http.Response) httplimit.Problem {
	t.Helper()
	var problem httplimit.Problem
	decoder := json.NewDecoder(response.Body)
	decoder.DisallowUnknownFields()
	tier.Must(t, decoder.Decode(&problem))
	if got := response.Header.Get("Content-Type"); got != "application/problem+json" {
		t.Errorf("Content-Type is %q", got)
	}
	if got := response.Header.Get("Cache-Control"); got != "no-store" {
		t.Errorf("Cache-Control is %q", got)
	}
	if problem.Status != response.StatusCode || problem.Title == "" {
		t.Errorf("the status is %d, and the problem %+v", response.StatusCode, problem)
	}
	return problem
}

func TestADenial(t *testing.T) {
	p := policyOf(t, "fixed-window:100/1h", "fixed-window:1/1h")
	s := newService(t, p, memorystore.New(), httplimit.Options{})
	first := s.get("X-User", "ada")
	if first.StatusCode != http.StatusOK || first.Header.Get("RateLimit-Policy") != `"a";q=100;w=3600,"b";q=1;w=3600` {
		t.Errorf("%d, %v", first.StatusCode, first.Header)
	}
	denied := s.get("X-User", "ada")
	problem := problemOf(t, denied)
	if denied.StatusCode != http.StatusTooManyRequests || problem.Type != httplimit.QuotaExceeded ||
		!slices.Equal(problem.ViolatedPolicies, []string{"b"}) ||
		!strings.Contains(problem.Detail, denied.Header.Get("Retry-After")+" s") {
		t.Errorf("%+v, %v", problem, denied.Header)
	}
	if got := denied.Header.Get("X-RateLimit-Remaining"); got != "0" {
		t.Errorf("%s are left", got)
	}
	if other := s.get("X-User", "bob"); other.StatusCode != http.StatusOK || s.reached.Load() != 2 {
		t.Errorf("another user: %d; the handler was reached %d times", other.StatusCode, s.reached.Load())
	}

	rule := byUser()
	rule.DeniedStatus, rule.Skip.Paths = http.StatusForbidden, []string{"/"}
	s = newService(t, p, memorystore.New(), httplimit.Options{Rule: rule})
	if s.get(); s.reached.Load() != 1 {
		t.Error("a request that is skipped needs a name")
	}
	rule.Skip.Paths = nil
	s = newService(t, p, memorystore.New(), httplimit.Options{Rule: rule, Headers: httplimit.NoHeaders})
	s.get("X-User", "ada")
	denied = s.get("X-User", "ada")
	if problemOf(t, denied); denied.StatusCode != http.StatusForbidden || denied.Header.Get("Retry-After") != "" {
		t.Errorf("%d, %v", denied.StatusCode, denied.Header)
	}
}

// Nobody escapes a limit by leaving something out, or by sending it twice.
func TestWhatARequestLacks(t *testing.T) {
	s := newService(t, policyOf(t, "1/1h"), memorystore.New(), httplimit.Options{
		OnError: func(_ *http.Request, err error) { t.Errorf("told of %v", err) },
	})
	s.get("X-User", "eve") // a name of its own
	for _, fields := range [][]string{nil, {"X-User", ""}, {"X-User", "ada", "X-User", "bob"},
		{"Cookie", "X-User=ada"}} {
		response := s.get(fields...)
		problem := problemOf(t, response)
		if response.StatusCode != http.StatusBadRequest || !strings.Contains(problem.Detail, "header:X-User") {
			t.Errorf("%q: %+v", fields, problem)
		}
		if response.Header.Get("RateLimit") != "" {
			t.Errorf("%q: %v", fields, response.Header)
		}
	}
	if s.reached.Load() != 1 {
		t.Error("the handler was reached")
	}
}

// What a client and OnError get when the store decides nothing.
func TestAStoreThatDecidesNothing(t *testing.T) {
	secret := "redis at 10.1.2.3"
	for _, test := range []struct {
		err        error
		status     int
		problem    string
		retryAfter string
		told       bool
	}{
		{fmt.Errorf("%w: %s", store.ErrUnavailable, secret), 503, httplimit.ReducedCapacity, "1", true},
		{fmt.Errorf("%w: %s", store.ErrOutcomeUnknown, secret), 503, httplimit.ReducedCapacity, "1", true},
		{fmt.Errorf("%w: %w: %s", store.ErrGaveUp, context.Canceled, secret), 503, httplimit.ReducedCapacity, "1",
			false},
		{fmt.Errorf("%w: %s", store.ErrRefused, secret), 500, "", "", true},
		{errors.New(secret), 500, "", "", true},
	} {
		var told error
		s := newService(t, policyOf(t, "1/1h"), failing{test.err}, httplimit.Options{
			OnError: func(_ *http.Request, err error) { told = err },
		})
		response := s.get("X-User", "ada")
		problem := problemOf(t, response)
		if response.StatusCode != test.status || problem.Type != test.problem ||
			response.Header.Get("Retry-After") != test.retryAfter ||
			response.Header.Get("RateLimit") != "" || s.reached.Load() != 0 {
			t.Errorf("%v: %+v, %v", test.err, problem, response.Header)
		}
		if strings.Contains(problem.Detail+problem.Title, secret) {
			t.Errorf("%v is told to the client: %+v", test.err, problem)
		}
		if (told != nil) != test.told || told != nil && !errors.Is(told, test.err) {
			t.Errorf("%v: told of %v", test.err, told)
		}
	}
	s := newService(t, policyOf(t, "1/1h"), failing{store.ErrUnavailable}, httplimit.Options{
		Failed: func(w http.ResponseWriter, _ *http.Request, err error) { http.Error(w, err.Error(), 599) },
	})
	if response := s.get("X-User", "ada"); response.StatusCode != 599 {
		t.Errorf("%d", response.StatusCode)
	}
}

// A failure policy decides while the store is away. The answer invents no remaining units.
func TestFailurePolicies(t *testing.T) {
	for onError, status := range map[store.FailurePolicy]int{store.AllowOnError: 200, store.DenyOnError: 429} {
		retryAfter := map[int]string{429: "1"}[status]
		backend := layers.Stack(failing{store.ErrUnavailable}, layers.Layers{Failure: layers.Failure{Policy: onError}})
		response := newService(t, policyOf(t, "1/1h"), backend, httplimit.Options{}).get("X-User", "ada")
		if response.StatusCode != status || response.Header.Get("Retry-After") != retryAfter {
			t.Errorf("%s: %d, %v", onError, response.StatusCode, response.Header)
		}
		for _, field := range []string{"RateLimit", "X-RateLimit-Remaining"} {
			if got := response.Header.Get(field); got != "" {
				t.Errorf("%s: %s is %q", onError, field, got)
			}
		}
		if status != 200 {
			if problem := problemOf(t, response); problem.Type != httplimit.ReducedCapacity ||
				problem.ViolatedPolicies != nil {
				t.Errorf("%s: %+v", onError, problem)
			}
		}
	}
}

// failing is a store that answers with an error.
type failing struct{ err error }

func (s failing) Decide(context.Context, store.Op, []store.Request, []store.Decision) error {
	return s.err
}

func (failing) Close() error { return nil }

// The requests of a leaky bucket reach the handler at its rate.
func TestTheDelayOfALeakyBucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(t, policyOf(t, "leaky-bucket:1/10s,burst=3"), memorystore.New(), httplimit.Options{})
		begin := time.Now()
		var mu sync.Mutex
		var after []int
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				response := s.get("X-User", "ada")
				mu.Lock()
				defer mu.Unlock()
				if response.StatusCode == http.StatusOK {
					after = append(after, int(time.Since(begin).Seconds()))
				}
			})
		}
		all.Wait()
		if slices.Sort(after); !slices.Equal(after, []int{0, 10, 20}) {
			t.Errorf("the answers came after %v s", after)
		}
		// A client that leaves before its turn does not reach the handler.
		s = newService(t, policyOf(t, "leaky-bucket:1/10s,burst=3"), memorystore.New(), httplimit.Options{})
		s.get("X-User", "ada")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		w := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(ctx, "GET", "/", nil)
		r.Header.Set("X-User", "ada")
		if s.ServeHTTP(w, r); w.Code != http.StatusServiceUnavailable || s.reached.Load() != 1 {
			t.Errorf("%d; the handler was reached %d times", w.Code, s.reached.Load())
		}
	})
}

// A request whose status does not count gives back exactly what it took, however its handler ends.
func TestOnlyAnswersThatCount(t *testing.T) {
	status := func(status int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }
	}
	panics := func(before http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { before(w, r); panic("of the handler") }
	}
	nothing := func(http.ResponseWriter, *http.Request) {}
	for name, test := range map[string]struct {
		handler http.HandlerFunc
		seen    int // the status of CountIf
		used    int64
	}{
		"a failed login": {status(401), 401, 1},
		"a login":        {status(204), 204, 0},
		"nothing":        {nothing, 200, 0},
		"a copy": {func(w http.ResponseWriter, _ *http.Request) { io.Copy(w, strings.NewReader("hello")) },
			200, 0},
		"a hint, then 401": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(103); w.WriteHeader(401) },
			401, 1},
		"a panic": {panics(nothing), 500, 0},
		"a hijacked connection": {func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			io.WriteString(conn, "HTTP/1.1 204 No Content\r\n\r\n")
			conn.Close()
		}, 101, 0},
		"a client that left": {func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, 200, 0},
	} {
		limits, seen := door(t, memorystore.New()), 0
		limit := limiter.Limit{Name: "a", Algorithm: limiter.FixedWindow, Count: 9, Period: 24 * 366 * time.Hour}
		m, err := httplimit.NewFunc(limits, func(*http.Request) ([]limiter.Request, error) {
			return []limiter.Request{limit.For("ada")}, nil
		}, httplimit.Options{CountIf: func(_ *http.Request, status int) bool { seen = status; return status == 401 }})
		tier.Must(t, err)
		returned := make(chan bool)
		inner := m.Wrap(test.handler)
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			defer close(returned)
			defer func() {
				if p := recover(); p != nil && p != "of the handler" {
					t.Error(p)
				}
			}()
			inner.ServeHTTP(w, r)
		}))
		ctx, cancel := context.WithCancel(t.Context())
		r, _ := http.NewRequestWithContext(ctx, "GET", server.URL, nil)
		go func() {
			if response, err := server.Client().Do(r); err == nil {
				response.Body.Close()
			}
		}()
		if strings.Contains(name, "left") {
			waitUntil(t, func() bool {
				d, err := limits.Peek(t.Context(), limit.For("ada"))
				return err == nil && d.At(0).Used == 1
			})
			cancel()
		}
		<-returned
		cancel()
		server.Close()
		d, err := limits.Peek(t.Context(), limit.For("ada"))
		if err != nil || seen != test.seen || d.At(0).Used != test.used {
			t.Errorf("%s: the status is %d, and %d are used, %v", name, seen, d.At(0).Used, err)
		}
	}
}

// waitUntil returns when the condition holds.
func waitUntil(t *testing.T, condition func() bool) {
	t.Helper()
	for !condition() {
		if t.Context().Err() != nil {
			t.Fatal("it never holds")
		}
		time.Sleep(time.Millisecond)
	}
}

// What is given back late or was taken elsewhere is not taken from others.
func TestGivingBackTakesFromNobody(t *testing.T) {
	counted := httplimit.Options{Rule: byUser(), OnError: func(_ *http.Request, err error) { t.Error(err) },
		CountIf: func(_ *http.Request, status int) bool { return status == 401 }}
	synctest.Test(t, func(t *testing.T) {
		limits := door(t, memorystore.New())
		m, err := httplimit.New(limits, policyOf(t, "fixed-window:9/1m", "sliding-counter:9/1m", "sliding-log:9/1m",
			"9/1m",
			"leaky-bucket:9/1m", "9/1h"), counted)
		tier.Must(t, err)
		s, used := &service{}, ""
		s.Handler = m.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			time.Sleep(61 * time.Second)
			requests := httplimit.OutcomeOf(r.Context()).Requests()
			if d, err := limits.Take(r.Context(), requests...); err != nil || !d.Allowed() { // in the next window
				t.Error(d, err)
			}
			s.last.Store(httplimit.OutcomeOf(r.Context()))
		}))
		s.get("X-User", "ada")
		d, err := limits.Peek(t.Context(), s.last.Load().Requests()...)
		for _, each := range d.All() {
			used += fmt.Sprint(each.Used, " ")
		}
		if err != nil || used != "1 2 1 1 1 1 " { // the sliding counter estimates: 1 and a part of the first
			t.Errorf("%s are used, %v", used, err)
		}
	})
	for option, statuses := range map[limiter.Option]string{
		limiter.FailOpen(): "200 200 ", limiter.FailLocal(1): "200 429 ",
	} {
		limits, err := limiter.New(failing{store.ErrUnavailable}, option)
		tier.Must(t, err)
		m, err := httplimit.New(limits, policyOf(t, "1/1h"), counted)
		tier.Must(t, err)
		s, got := &service{Handler: m.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))}, ""
		for range 2 {
			got += fmt.Sprint(s.get("X-User", "ada").StatusCode, " ")
		}
		if got != statuses {
			t.Errorf("%v: %s", option, got)
		}
	}
}

// Attributes of the function take precedence over those of the rule.
func TestAttributesOfTheService(t *testing.T) {
	p := policyOf(t, "1/1h")
	var own policy.Attributes
	var wrong error
	s := newService(t, p, memorystore.New(), httplimit.Options{
		Attributes: func(*http.Request) (policy.Attributes, error) { return own, wrong },
	})
	for _, test := range []struct {
		own    policy.Attributes
		wrong  error
		status int
		key    string
	}{
		{nil, nil, 200, "user:ada"},
		{policy.Attributes{"user": "eve"}, nil, 200, "user:eve"},
		{policy.Attributes{"user": "eve"}, nil, 429, ""},
		{policy.Attributes{"user": strings.Repeat("e", 10000)}, nil, 200, "user:" + strings.Repeat("e", 63) + "~"},
		{policy.Attributes{"usr": "eve"}, nil, 500, ""},
		{nil, store.Invalidf("the session is over"), 400, ""},
		{nil, errors.New("no sessions"), 500, ""},
	} {
		own, wrong = test.own, test.wrong
		s.last.Store(nil)
		response := s.get("X-User", "ada")
		if response.StatusCode != test.status {
			t.Errorf("%+v: %d", test, response.StatusCode)
		}
		if o := s.last.Load(); test.status == 200 &&
			(o == nil || !strings.HasPrefix(o.Requests()[0].Subject(), test.key) || !o.Decisions().Allowed()) {
			t.Errorf("%+v: %+v", test, o)
		}
	}
	if o := httplimit.OutcomeOf(t.Context()); o != nil || o.Requests() != nil || o.Decisions().Allowed() {
		t.Error("an outcome of nothing")
	}
}

func TestWhatNewRefuses(t *testing.T) {
	good := policyOf(t, "1/1h")
	rule := func(sources map[string]httplimit.Source) httplimit.Options {
		return httplimit.Options{Rule: httplimit.Rule{Attributes: sources}}
	}
	status := httplimit.Options{Rule: byUser()}
	status.Rule.DeniedStatus = 200
	uncosted := policyOf(t, "1/1h")
	uncosted.Limits[0].Cost = policy.Cost{Field: "tokens"}
	if got := fmt.Sprint(httplimit.Sourced(uncosted)); got != "[user tokens]" {
		t.Errorf("sources are needed for %s", got)
	}
	for name, test := range map[string]struct {
		policy  *policy.Policy
		options httplimit.Options
		want    string
	}{
		"a policy without limits": {&policy.Policy{Name: "p"}, httplimit.Options{}, "no limits"},
		"an attribute without":    {good, httplimit.Options{}, `"user"`},
		"a source of nothing":     {good, rule(map[string]httplimit.Source{"user": {}}), "ParseSource"},
		"an address of 129 bits": {
			good, httplimit.Options{Rule: byUser(), Clients: httplimit.Clients{IPv6Bits: 129}}, "129"},
		"a denial that sounds good": {good, status, "200"},
		"a cost without a source": {uncosted, httplimit.Options{Rule: byUser()},
			`policy "p" needs "tokens"; say where it is in a request`},
	} {
		if _, err := httplimit.New(door(t, memorystore.New()), test.policy, test.options); !errors.Is(
			err, store.ErrInvalid) ||
			!strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A wrong limit of the service is not a mistake of the client.
func TestAMistakeOfTheServiceIsNoClients(t *testing.T) {
	var told error
	m, err := httplimit.NewFunc(door(t, memorystore.New()), func(*http.Request) ([]limiter.Request, error) {
		return []limiter.Request{limiter.Per("a", 10, 60).For("u")}, nil
	}, httplimit.Options{OnError: func(_ *http.Request, err error) { told = err }})
	tier.Must(t, err)
	s := &service{}
	s.Handler = m.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { s.reached.Add(1) }))
	response := s.get()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != 500 || s.reached.Load() != 0 || told == nil ||
		strings.Contains(string(body), "60ns") {
		t.Errorf("%d %s, told %v, %v", response.StatusCode, body, told, err)
	}
}

package metrics

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/configfile"
	"github.com/limitctl/limitctl/internal/decision"
	"github.com/limitctl/limitctl/internal/serve/engine"
	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// observed is an engine on a store, with its metrics.
func observed(t testing.TB, backend admin.Keyspace, settings *engine.Settings) (*engine.Engine, *Metrics) {
	m := New("test")
	e := engine.New(backend, settings, engine.Options{
		Timeout: time.Minute, Observer: limiter.Observer{OnBreaker: m.Breaker}, OnStoreCall: m.StoreCall,
		OnDecision: m.Decided,
		OnReplace:  m.Configure,
	})
	t.Cleanup(func() { e.Close(); backend.Close() })
	return e, m
}

// samples are the values of a scrape by series, in the text format.
type samples map[string]float64

func scrape(t testing.TB, m *Metrics) (samples, string) {
	t.Helper()
	recorder := httptest.NewRecorder()
	m.Handler().ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if recorder.Code != http.StatusOK {
		t.Fatalf("status %d: %s", recorder.Code, recorder.Body)
	}
	text := recorder.Body.String()
	found := samples{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		i := strings.LastIndexByte(line, ' ')
		value, err := strconv.ParseFloat(line[i+1:], 64)
		if err != nil {
			t.Fatalf("%q: %s", line, err)
		}
		found[line[:i]] = value
	}
	return found, text
}

// sum adds the series of a metric that have all of the labels.
func (s samples) sum(name string, labels ...string) (sum float64) {
	for series, value := range s {
		rest, ok := strings.CutPrefix(series, name)
		if !ok || rest != "" && rest[0] != '{' {
			continue
		}
		has := true
		for _, label := range labels {
			has = has && strings.Contains(rest, label)
		}
		if has {
			sum += value
		}
	}
	return sum
}

func (s samples) want(t *testing.T, series string, want float64) {
	t.Helper()
	if got, there := s[series]; !there || got != want {
		t.Errorf("%s is %v (there: %t), want %v", series, got, there, want)
	}
}

func login() *policy.Policy {
	return &policy.Policy{Name: "login", Limits: []policy.Limit{
		{Limit: limiter.Per("ip", 5, time.Minute), By: []string{"ip"}},
		{Limit: limiter.Limit{Name: "email", Count: 3, Period: time.Minute, Shadow: true}, By: []string{"email"}},
	}}
}

func ask(op store.Op, ip, email string) *engine.Ask {
	return &engine.Ask{Op: op, Policy: "login", Attributes: policy.Attributes{"ip": ip, "email": email}, Cost: 1}
}

// by sets the settings in force, by which an ask is decided.
func by(e *engine.Engine, ask *engine.Ask) *engine.Ask {
	ask.Settings = e.Settings()
	return ask
}

func decide(t *testing.T, e *engine.Engine, ask *engine.Ask) *decision.Answer {
	t.Helper()
	answer := new(decision.Answer)
	if err := e.Decide(t.Context(), by(e, ask), answer); err != nil {
		t.Fatal(err)
	}
	return answer
}

// Each limit of a call is counted exactly once, by its outcome.
func TestEachLimitOfACallIsCountedOnce(t *testing.T) {
	e, m := observed(t, memorystore.New(), &engine.Settings{File: configfile.File{Policies: []*policy.Policy{login()}}})
	for range 7 {
		decide(t, e, ask(store.Take, "192.0.2.1", "a@example.com"))
	}
	decide(t, e, ask(store.Peek, "192.0.2.1", "a@example.com"))
	decide(t, e, ask(store.Refund, "192.0.2.1", "a@example.com"))
	e.Decide(t.Context(), by(e, &engine.Ask{Op: store.Take, Policy: "login", Cost: 1}), new(decision.Answer))
	e.Decide(t.Context(), by(e, &engine.Ask{Op: store.Take, Policy: "lgin", Cost: 1}), new(decision.Answer))
	decide(t, e, &engine.Ask{Op: store.Take, Key: "user:42", Cost: 2, Limits: []store.Limit{
		{Count: 9, Period: time.Minute}, {Count: 50, Period: time.Hour}}})

	s, _ := scrape(t, m)
	s.want(t, `limitctl_decisions_total{limit="ip",outcome="allowed",policy="login"}`, 5)
	s.want(t, `limitctl_decisions_total{limit="ip",outcome="denied",policy="login"}`, 2)
	s.want(t, `limitctl_decisions_total{limit="email",outcome="allowed",policy="login"}`, 3)
	s.want(t, `limitctl_decisions_total{limit="email",outcome="shadow-denied",policy="login"}`, 4)
	s.want(t, `limitctl_decisions_total{limit="(none)",outcome="allowed",policy="(none)"}`, 2)
	s.want(t, `limitctl_granted_units_total{limit="ip",policy="login"}`, 5)
	s.want(t, `limitctl_granted_units_total{limit="(none)",policy="(none)"}`, 4)
	s.want(t, `limitctl_calls_total{operation="consume",policy="login",result="allowed"}`, 5)
	s.want(t, `limitctl_calls_total{operation="consume",policy="login",result="denied"}`, 2)
	s.want(t, `limitctl_calls_total{operation="consume",policy="login",result="error"}`, 1)
	s.want(t, `limitctl_calls_total{operation="refund",policy="login",result="allowed"}`, 1)
	s.want(t, `limitctl_calls_total{operation="consume",policy="(unknown)",result="error"}`, 1)
	s.want(t, `limitctl_errors_total{kind="invalid",policy="login"}`, 1)
	s.want(t, `limitctl_errors_total{kind="unknown-policy",policy="(unknown)"}`, 1)
	s.want(t, `limitctl_decision_duration_seconds_count{policy="login"}`, 10)
	s.want(t, `limitctl_store_duration_seconds_count{operation="consume"}`, 8)
	if sum := s.sum("limitctl_decisions_total", `policy="login"`); sum != 14 {
		t.Errorf("%v decisions of login are counted, want 7 of each of 2 limits", sum)
	}
}

// The outcome of a limit for each kind of decision.
func TestOutcomes(t *testing.T) {
	block := &store.Override{Effect: store.OverrideBlock}
	times := &store.Override{Effect: store.OverrideTimes}
	p := &policy.Policy{Name: "p", Limits: []policy.Limit{{Limit: limiter.Per("l", 5, time.Minute), By: []string{"a"}}}}
	for _, test := range []struct {
		outcome string
		of      store.Decision
	}{
		{"allowed", store.Decision{Allowed: true}},
		{"allowed", store.Decision{Allowed: true, DecidedBy: store.DecidedByOverride}},
		{"allowed", store.Decision{Allowed: true, Granted: 3, Repeated: true}}, // charged by the call before
		{"denied", store.Decision{}},
		{"denied", store.Decision{DecidedBy: store.DecidedByOverride, Override: times}},
		{"blocked", store.Decision{DecidedBy: store.DecidedByOverride, Override: block}},
		{"shadow-denied", store.Decision{Shadow: true}},
		{"shadow-denied", store.Decision{Shadow: true, DecidedBy: store.DecidedByOverride, Override: block}},
		{"local", store.Decision{Allowed: true, DecidedBy: store.DecidedByLocal}},
		{"local-denied", store.Decision{DecidedBy: store.DecidedByLocal}},
		{"unguarded", store.Decision{Allowed: true, Unguarded: true, DecidedBy: store.DecidedByFailurePolicy}},
		{"unguarded-denied", store.Decision{Unguarded: true, DecidedBy: store.DecidedByFailurePolicy}},
		{"not-asked", store.Decision{Allowed: true, Unguarded: true}},
	} {
		m := New("")
		m.Configure(&engine.Settings{File: configfile.File{Policies: []*policy.Policy{p}}}, true)
		answer := &decision.Answer{Policy: p, Decisions: []store.Decision{test.of}}
		m.Decided(&engine.Ask{Op: store.Take, Policy: "p"}, answer, nil, time.Millisecond)
		s, _ := scrape(t, m)
		s.want(t, fmt.Sprintf(`limitctl_decisions_total{limit="l",outcome=%q,policy="p"}`, test.outcome), 1)
		s.want(t, `limitctl_granted_units_total{limit="l",policy="p"}`, 0)
		if sum := s.sum("limitctl_decisions_total"); sum != 1 {
			t.Errorf("%+v: %v outcomes, want 1", test.of, sum)
		}
	}
}

// Clients cannot create series, and no label contains what they send.
func TestClientsCannotMakeSeries(t *testing.T) {
	e, m := observed(t, memorystore.New(), &engine.Settings{File: configfile.File{Policies: []*policy.Policy{login()}}})
	listener := m.Listener("http", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status, _ := strconv.Atoi(r.URL.Query().Get("status"))
		w.WriteHeader(max(status, 100))
	}), nil)
	before, _ := scrape(t, m)
	const calls = 10_000
	var answer decision.Answer
	for i := range calls {
		hostile := "hostile-" + strconv.Itoa(i)
		answer = decision.Answer{}
		switch i % 4 {
		case 0:
			e.Decide(t.Context(), by(e, ask(store.Take, hostile, hostile)), &answer)
		case 1:
			attributes := policy.Attributes{hostile: hostile}
			e.Decide(t.Context(), by(e, &engine.Ask{Op: store.Peek, Policy: hostile, Attributes: attributes, Cost: 1}),
				&answer)
		case 2:
			limits := []store.Limit{{Count: int64(i + 1), Period: time.Duration(i%1000+1) * time.Second}}
			e.Decide(t.Context(), by(e, &engine.Ask{Op: store.Take, Key: hostile, Limits: limits, Cost: 1}), &answer)
		case 3:
			attributes := policy.Attributes{hostile: hostile}
			e.Decide(t.Context(), by(e, &engine.Ask{Op: store.Take, Policy: "login", Attributes: attributes, Cost: 1}),
				&answer)
		}
	}
	for status := 100; status < 1000; status++ {
		r := httptest.NewRequest("HOSTILE", fmt.Sprintf("/hostile?status=%d", status), nil)
		listener.ServeHTTP(httptest.NewRecorder(), r)
	}
	after, text := scrape(t, m)
	if len(after) != len(before) {
		for series := range after {
			if _, was := before[series]; !was {
				t.Logf("new: %s", series)
			}
		}
		t.Errorf("%d series before, %d after %d different requests", len(before), len(after), calls)
	}
	if i := strings.Index(strings.ToLower(text), "hostile"); i >= 0 {
		t.Errorf("what a client sent is in %q", text[max(0, i-80):i+40])
	}
	if sum := after.sum("limitctl_calls_total"); sum != float64(calls) {
		t.Errorf("%v calls are counted of %d", sum, calls)
	}
}

// Series of removed policies go, also those of a policy whose name another one had, and a call that was under way makes
// none.
func TestSeriesOfOldPoliciesGo(t *testing.T) {
	m := New("")
	old, next := login(), &policy.Policy{Name: "api", Limits: login().Limits[:1]}
	told := func(p *policy.Policy) {
		answer := &decision.Answer{Policy: p, Decisions: make([]store.Decision, len(p.Limits))}
		m.Decided(&engine.Ask{Op: store.Take, Policy: p.Name}, answer, nil, 0)
	}
	for range 2 {
		m.Configure(&engine.Settings{File: configfile.File{Policies: []*policy.Policy{old}}}, true)
		told(old)
		s, _ := scrape(t, m)
		s.want(t, `limitctl_decisions_total{limit="ip",outcome="denied",policy="login"}`, 1)
		m.Configure(&engine.Settings{File: configfile.File{Policies: []*policy.Policy{next}}}, true)
		told(old)
		_, text := scrape(t, m)
		if strings.Contains(text, "login") {
			t.Errorf("series of a removed policy are there:\n%s", text)
		}
	}
}

// The state of a breaker, and of so many parts that not all can have series.
func TestBreakers(t *testing.T) {
	m := New("")
	s, _ := scrape(t, m)
	if n := s.sum("limitctl_breaker_state"); n != 0 {
		t.Error("without a breaker there is a state of one")
	}
	m.Configure(&engine.Settings{File: configfile.File{Breaker: &store.Breaker{}}}, true)
	s, _ = scrape(t, m)
	s.want(t, `limitctl_breaker_state{part="",state="closed"}`, 1)
	changed := m.Breaker
	changed(limiter.BreakerChange{To: limiter.BreakerOpen})
	s, _ = scrape(t, m)
	s.want(t, `limitctl_breaker_state{part="",state="closed"}`, 0)
	s.want(t, `limitctl_breaker_state{part="",state="open"}`, 1)
	s.want(t, `limitctl_breaker_changes_total{part="",to="open"}`, 1)
	before := 0
	for i := range 2000 {
		to := limiter.BreakerState(i % 3)
		changed(limiter.BreakerChange{Shard: fmt.Sprintf("10.0.%d.%d:6379", i/250, i%250), To: to})
		if i == 200 {
			s, _ = scrape(t, m)
			before = len(s)
		}
	}
	s, _ = scrape(t, m)
	if len(s) > before+6 {
		t.Errorf("%d series with 200 parts, %d with 2000", before, len(s))
	}
	s.want(t, `limitctl_breaker_state{part="",state="open"}`, 1)
	m.Configure(&engine.Settings{File: configfile.File{Breaker: &store.Breaker{}}}, true)
	s, _ = scrape(t, m)
	s.want(t, `limitctl_breaker_state{part="",state="open"}`, 0)
}

// Listeners count their answers, even if a handler panics or writes nothing.
func TestListeners(t *testing.T) {
	m := New("")
	listener := m.Listener("http", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/early":
			w.WriteHeader(http.StatusEarlyHints)
			w.WriteHeader(http.StatusTooManyRequests)
		case "/panic":
			panic(http.ErrAbortHandler)
		case "/text":
			io.WriteString(w, "text")
			http.NewResponseController(w).Flush()
		}
	}), nil)
	for _, path := range []string{"/early", "/panic", "/text", "/"} {
		func() {
			defer func() { recover() }()
			listener.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, path, nil))
		}()
	}
	m.Refused()
	for _, code := range []string{"OK", "UNAVAILABLE", "UNAVAILABLE"} {
		m.CallEnded(code)
	}
	s, _ := scrape(t, m)
	s.want(t, `limitctl_http_requests_total{door="http",status="2xx"}`, 2)
	s.want(t, `limitctl_http_requests_total{door="http",status="4xx"}`, 1)
	s.want(t, `limitctl_http_requests_total{door="http",status="5xx"}`, 1)
	s.want(t, `limitctl_http_request_duration_seconds_count{door="http"}`, 4)
	s.want(t, `limitctl_http_requests_in_flight{door="http"}`, 0)
	s.want(t, `limitctl_refused_requests_total`, 1)
	s.want(t, `limitctl_grpc_calls_total{code="OK"}`, 1)
	s.want(t, `limitctl_grpc_calls_total{code="UNAVAILABLE"}`, 2)
}

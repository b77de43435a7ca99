package httplimit_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/httplimit"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
)

// uploads allows each user three requests and a thousand bytes.
func uploads(t *testing.T) *policy.Policy {
	p := policyOf(t, "3/1h", "1000/1h")
	p.Limits[0].Cost, p.Limits[1].Cost = policy.Cost{Units: 1}, policy.Cost{Field: "bytes"}
	return p
}

// askedOf sends requests through a policy and returns what each took of its limits.
func askedOf(t *testing.T, p *policy.Policy, options httplimit.Options) func(r *http.Request) (
	status int, took, body string) {
	t.Helper()
	now := time.Date(2026, 3, 29, 12, 0, 0, 0, time.UTC)
	backend := memorystore.New(memorystore.WithClock(func() time.Time { return now }))
	m, err := httplimit.New(door(t, backend), p, options)
	check(t, err)
	return func(r *http.Request) (int, string, string) {
		took := ""
		w := httptest.NewRecorder()
		m.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			for _, request := range httplimit.OutcomeOf(r.Context()).Requests() {
				took += fmt.Sprint(request.Cost(), " ")
			}
		})).ServeHTTP(w, r)
		return w.Code, strings.TrimSpace(took), w.Body.String()
	}
}

// upload is a request of a user with a body of that many bytes and with other fields.
func upload(bytes int64, fields ...string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/", io.LimitReader(zeros{}, max(0, bytes)))
	r.ContentLength = bytes
	r.Header.Set("X-User", "ada")
	for i := 0; i < len(fields); i += 2 {
		r.Header.Set(fields[i], fields[i+1])
	}
	return r
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// A request takes its bytes from one limit, and one unit from the other. A body of unknown length must not escape.
func TestBytesOfRequests(t *testing.T) {
	for _, test := range []struct {
		bytes  []int64
		status int
		says   string
	}{
		{[]int64{1000}, 200, "1 1000"},              // at the bound
		{[]int64{1001}, 400, "cost 1001 can never"}, // fit
		{[]int64{999, 2}, 429, ""},
		{[]int64{-1}, 400, `"the request must have a Content-Length, as its bytes are counted"`},
	} {
		ask := askedOf(t, uploads(t), httplimit.Options{Rule: byUser()})
		var status int
		var took, body string
		for _, bytes := range test.bytes {
			status, took, body = ask(upload(bytes))
		}
		if status != test.status || !strings.Contains(took+body, test.says) {
			t.Errorf("%v: %d, took %q, %s", test.bytes, status, took, body)
		}
	}
}

// A source can name any cost, including the bytes. A text that is not a number is the client's mistake.
func TestCostsFromSources(t *testing.T) {
	p := policyOf(t, "1000/1h", "1000/1h")
	p.Limits[0].Cost, p.Limits[1].Cost = policy.Cost{Field: "tokens"}, policy.Cost{Field: "bytes"}
	rule := byUser()
	rule.Attributes["tokens"], rule.Attributes["bytes"] = httplimit.MustSource("header:X-Tokens"),
		httplimit.MustSource("header:X-Length")
	for _, test := range []struct {
		fields []string
		status int
		says   string
	}{
		{[]string{"X-Tokens", "1000", "X-Length", "7"}, 200, "1000 7"},
		{[]string{"X-Tokens", "1001", "X-Length", "7"}, 400,
			`cost 1001 can never fit limit \"p/a\": token-bucket:1000/1h`},
		{[]string{"X-Tokens", "many", "X-Length", "7"}, 400, `cost tokens is \"many\"; it must be a whole number`},
		{nil, 400, "the request must have exactly one value for header:X-Tokens and for header:X-Length"},
	} {
		status, took, body := askedOf(t, p, httplimit.Options{Rule: rule})(upload(12, test.fields...))
		if status != test.status || !strings.Contains(took+body, test.says) {
			t.Errorf("%v: %d, took %q, %s", test.fields, status, took, body)
		}
	}
}

package httplimit_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/tier"
	"github.com/limitctl/limitctl/pkg/limiter/httplimit"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
)

// A request takes its cost from each limit: a fixed one, its bytes, or what a source says, which can be the bytes as
// well. A body of unknown length must not escape, and a text that is not a number is the client's mistake.
func TestCostsOfRequests(t *testing.T) {
	one, ofBytes, ofTokens := policy.Cost{Units: 1}, policy.Cost{Field: "bytes"}, policy.Cost{Field: "tokens"}
	for _, test := range []struct {
		costs  [2]policy.Cost
		bytes  []int64
		fields []string
		status int
		says   string
	}{
		{[2]policy.Cost{one, ofBytes}, []int64{1000}, nil, 200, "1 1000"},              // at the bound
		{[2]policy.Cost{one, ofBytes}, []int64{1001}, nil, 400, "cost 1001 can never"}, // fit
		{[2]policy.Cost{one, ofBytes}, []int64{999, 2}, nil, 429, ""},
		{[2]policy.Cost{one, ofBytes}, []int64{-1}, nil, 400,
			`"the request must have a Content-Length, as its bytes are counted"`},
		{[2]policy.Cost{ofTokens, ofBytes}, []int64{12}, []string{"X-Tokens", "1000", "X-Length", "7"}, 200, "1000 7"},
		{[2]policy.Cost{ofTokens, ofBytes}, []int64{12}, []string{"X-Tokens", "many", "X-Length", "7"}, 400,
			`cost tokens is \"many\"; it must be a whole number`},
		{[2]policy.Cost{ofTokens, ofBytes}, []int64{12}, nil, 400,
			"the request must have exactly one value for header:X-Tokens and for header:X-Length"},
	} {
		p, rule := policyOf(t, "1000/1h", "1000/1h"), byUser()
		p.Limits[0].Cost, p.Limits[1].Cost = test.costs[0], test.costs[1]
		if test.costs[0] == ofTokens {
			rule.Attributes["tokens"], rule.Attributes["bytes"] = httplimit.MustSource("header:X-Tokens"),
				httplimit.MustSource("header:X-Length")
		}
		ask := askedOf(t, p, httplimit.Options{Rule: rule})
		var status int
		var took, body string
		for _, bytes := range test.bytes {
			status, took, body = ask(upload(bytes, test.fields...))
		}
		if status != test.status || !strings.Contains(took+body, test.says) {
			t.Errorf("%v of %v: %d, took %q, %s", test.bytes, test.fields, status, took, body)
		}
	}
}

// askedOf sends requests through a policy and returns what each took of its limits.
func askedOf(t *testing.T, p *policy.Policy, options httplimit.Options) func(r *http.Request) (
	status int, took, body string) {
	t.Helper()
	now := time.Date(2026, 3, 29, 12, 0, 0, 0, time.UTC)
	backend := memorystore.New(memorystore.WithClock(func() time.Time { return now }))
	m, err := httplimit.New(door(t, backend), p, options)
	tier.Must(t, err)
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

package api

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/configfile"
	"github.com/limitctl/limitctl/internal/serve/engine"
	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/httplimit"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
)

// llmPolicy limits the calls and the tokens of teams.
func llmPolicy(t testing.TB) *policy.Policy {
	team := []string{"team"}
	return &policy.Policy{Name: "llm", Limits: []policy.Limit{
		{Limit: limiter.Per("requests", 60, 366*24*time.Hour), By: team, Cost: policy.Cost{Units: 1}},
		{Limit: limiter.Per("tokens", 100000, 366*24*time.Hour), By: team, Cost: policy.Cost{Field: "tokens"}},
	}}
}

// costListener is a handler with these policies and a clock that stands still.
func costListener(t testing.TB) http.Handler {
	now := time.Date(2026, 3, 29, 12, 0, 0, 0, time.UTC)
	backend := memorystore.New(memorystore.WithClock(func() time.Time { return now }))
	return listenerOn(t, backend, time.Minute, llmPolicy(t))
}

// figures returns the cost and the usage of each limit in an answer.
func figures(document map[string]any) string {
	text := ""
	limits, _ := document["limits"].([]any)
	for _, limit := range limits {
		limit := limit.(map[string]any)
		text += fmt.Sprintf("%v of %v; ", limit["cost"], limit["used"])
	}
	return strings.TrimSuffix(text, "; ")
}

func TestEachLimitIsAskedForItsCost(t *testing.T) {
	listener := costListener(t)
	const red = `"policy":"llm","attributes":{"team":"red"}`
	for _, test := range []struct {
		verb, body string
		status     int
		want       string
	}{
		{"check", `{` + red + `,"costs":{"tokens":100000}}`, 200, "1 of 0; 100000 of 0"},
		{"consume", `{` + red + `,"costs":{"tokens":99999}}`, 200, "1 of 1; 99999 of 99999"},
		{"consume", `{` + red + `,"costs":{"tokens":2}}`, 429, "1 of 1; 2 of 99999"},
		{"consume", `{"costs":{"tokens":1},` + red + `}`, 200, "1 of 2; 1 of 100000"},
		{"refund", `{` + red + `,"costs":{"tokens":60000}}`, 200, "1 of 1; 60000 of 40000"},
		{"consume", `{` + red + `,"costs":{"tokens":1000},"token":"a"}`, 200, "1 of 2; 1000 of 41000"},
		{"settle", `{` + red + `,"costs":{"tokens":400},"token":"a"}`, 200, "1 of 2; 400 of 40400"},
		{"consume", `{` + red + `,"costs":{"tokens":100000},"force":true}`, 200, "1 of 3; 100000 of 140400"},
	} {
		w, document := ask(t, listener, "POST", "/v1/"+test.verb, test.body)
		if got := figures(document); w.Code != test.status || got != test.want {
			t.Errorf("%s %s: %d, %s, not %s", test.verb, test.body, w.Code, got, test.want)
		}
		if _, has := document["cost"]; has {
			t.Errorf("%s %s has one cost for all limits: %s", test.verb, test.body, w.Body)
		}
	}
}

// With forward-auth the costs come from fields; the length of the original body is unknown.
func TestForwardAuthTakesCostsOfFields(t *testing.T) {
	settings := &engine.Settings{File: configfile.File{Policies: []*policy.Policy{llmPolicy(t)}}}
	settings.HTTP = httplimit.Settings{Rules: map[string]httplimit.Rule{
		"llm": {Attributes: map[string]httplimit.Source{
			"team": httplimit.MustSource("header:X-Team"), "tokens": httplimit.MustSource("header:X-Tokens")}},
	}}
	web := llmPolicy(t)
	web.Name, web.Limits[1].Cost.Field = "web", "bytes"
	settings.Policies = append(settings.Policies, web)
	settings.HTTP.Rules["web"] = httplimit.Rule{
		Attributes: map[string]httplimit.Source{"team": httplimit.MustSource("header:X-Team")}}
	listener := Handler(engineOn(t, memorystore.New(), settings, time.Minute), Options{})
	for _, test := range []struct {
		policy string
		fields []string
		status int
		says   string
	}{
		{"llm", []string{"X-Team: red", "X-Tokens: 100000"}, 204, ""},
		{"llm", []string{"X-Team: red", "X-Tokens: 1000"}, 429, `"violated-policies":["tokens"]`},
		{"llm", []string{"X-Team: red", "X-Tokens: many"}, 400, `cost tokens is \"many\"; it must be a whole number`},
		{"llm", []string{"X-Team: red"}, 400, "the request must have exactly one value for header:X-Tokens"},
		{"web", []string{"X-Team: red", "Content-Length: 5"}, 400,
			"the request must have a Content-Length, as its bytes are counted; http.attributes of the policy says " +
				"where"},
	} {
		w := httptest.NewRecorder()
		listener.ServeHTTP(w, authRequest("GET", "/v1/auth/"+test.policy, "127.0.0.1:999", test.fields...))
		if w.Code != test.status || !strings.Contains(w.Body.String(), test.says) {
			t.Errorf("%s %v: %d %s", test.policy, test.fields, w.Code, w.Body)
		}
	}
}

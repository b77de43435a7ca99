package api

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/configfile"
	"github.com/limitctl/limitctl/internal/serve/engine"
	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// A reset begins all limits of a policy anew, also those with a cost of their own, and no others.
func TestReset(t *testing.T) {
	costly := &policy.Policy{Name: "llm", Limits: []policy.Limit{
		{Limit: limiter.Per("requests", 2, time.Hour), By: []string{"team"}},
		{Limit: limiter.Per("tokens", 100, time.Hour), By: []string{"team"}, Cost: policy.Cost{Field: "tokens"}},
		{Limit: limiter.Per("fixed", 10, time.Hour), By: []string{"team"}, Cost: policy.Cost{Units: 5}},
	}}
	settings := &engine.Settings{File: configfile.File{Policies: []*policy.Policy{loginPolicy(t), costly}}}
	e := engineOn(t, memorystore.New(), settings, time.Minute)
	open, closed := Handler(e, Options{Resets: true}), Handler(e, Options{})
	const red, blue = `"policy":"llm","attributes":{"team":"red"}`, `"policy":"llm","attributes":{"team":"blue"}`
	consume := func(who string) int {
		w, _ := ask(t, open, http.MethodPost, "/v1/consume", "{"+who+`,"costs":{"tokens":50}}`)
		return w.Code
	}
	for _, who := range []string{red, red, red, blue, blue, blue} {
		consume(who)
	}
	w, document := ask(t, open, http.MethodPost, "/v1/reset", "{"+red+"}")
	if limits, _ := document["limits"].([]any); w.Code != 200 || document["allowed"] != true || len(limits) != 3 {
		t.Errorf("status %d: %s", w.Code, w.Body)
	}
	if got := [...]int{consume(red), consume(red), consume(red), consume(blue)}; got != [...]int{200, 200, 429, 429} {
		t.Errorf("after the reset: %v", got)
	}
	ask(t, open, http.MethodPost, "/v1/consume", `{"key":"u","limits":["1/1h"]}`)
	if w, _ := ask(t, open, http.MethodPost, "/v1/reset", `{"key":"u","limits":["1/1h"]}`); w.Code != 200 {
		t.Errorf("of a key: %d %s", w.Code, w.Body)
	}
	if w, _ := ask(t, open, http.MethodPost, "/v1/consume", `{"key":"u","limits":["1/1h"]}`); w.Code != 200 {
		t.Errorf("after the reset of a key: %d %s", w.Code, w.Body)
	}
	const fields = "the fields of reset are key, limits, policy, attributes"
	for body, want := range map[string]string{
		`{"key":"u","limits":["1/1h"],"cost":1}`: fields, "{" + red + `,"token":"x"}`: fields,
		`{"key":"u"}`: "limits are missing",
	} {
		if w, document := ask(t, open, http.MethodPost, "/v1/reset", body); w.Code != 400 ||
			!strings.Contains(toldBy(document), want) {
			t.Errorf("%s: %d %s", body, w.Code, w.Body)
		}
	}
	w, document = ask(t, closed, http.MethodPost, "/v1/reset", "{"+blue+"}")
	if w.Code != 403 || !strings.Contains(toldBy(document), "scope reset") {
		t.Errorf("without access tokens: %d %s", w.Code, w.Body)
	}
	if consume(blue) != 429 {
		t.Error("it was reset without an access token")
	}
}

func toldBy(document map[string]any) string { _, message := errorOf(document); return message }

// Each path needs a scope of its own.
func TestScopesOfPaths(t *testing.T) {
	for path, want := range map[string]string{"/v1/check": "decide read", "/v1/consume": "decide",
		"/v1/refund": "refund",
		"/v1/settle": "refund", "/v1/reset": "reset", "/v1/subject": "read", "/v1/auth/login": "decide",
		"/v1/auth/login/reset": "decide", "/v1/else": "read"} {
		if got := strings.Join(Scopes(path), " "); got != want {
			t.Errorf("%s needs %s, not %s", path, got, want)
		}
	}
	for _, v := range verbs {
		if v.op != store.Peek && strings.Contains(strings.Join(v.scopes, " "), "read") {
			t.Errorf("%s changes something, and needs only %v", v.name, v.scopes)
		}
	}
}

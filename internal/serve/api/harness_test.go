package api

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/configfile"
	"github.com/limitctl/limitctl/internal/serve/engine"
	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/httplimit"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
)

// loginPolicy limits addresses and e-mails; acme has a higher limit.
func loginPolicy(t testing.TB) *policy.Policy {
	return &policy.Policy{Name: "login", Limits: []policy.Limit{
		{
			Limit: limiter.Per("ip", 10, time.Hour),
			By:    []string{"ip"},
			Exceptions: []policy.Exception{
				{When: policy.Attributes{"plan": "gold"}, Limit: limiter.Per("", 20, time.Hour)}},
		},
		{Limit: limiter.Per("email", 2, time.Hour), By: []string{"email"}},
	}}
}

// engineOn returns an engine on a store, and closes both at the end of the test.
func engineOn(t testing.TB, backend admin.Keyspace, settings *engine.Settings, timeout time.Duration) *engine.Engine {
	e := engine.New(backend, settings, engine.Options{Timeout: timeout})
	t.Cleanup(func() { e.Close(); backend.Close() })
	return e
}

// listenerOn returns the handler for a store, with the given policies and login.
func listenerOn(t testing.TB, backend admin.Keyspace, timeout time.Duration, policies ...*policy.Policy) http.Handler {
	settings := &engine.Settings{File: configfile.File{Policies: append([]*policy.Policy{loginPolicy(t)}, policies...),
		HTTP: httplimit.Settings{Headers: httplimit.AllHeaders, Rules: map[string]httplimit.Rule{}}}}
	return Handler(engineOn(t, backend, settings, timeout), Options{Describe: func(err error) string {
		return strings.ReplaceAll(err.Error(), "hunter2", "xxxxx")
	}})
}

func memoryListener(t testing.TB) http.Handler {
	return listenerOn(t, memorystore.New(), time.Minute)
}

// ask sends a body, and returns the answer and its document. Every answer is JSON.
func ask(t testing.TB, listener http.Handler, method, path, body string) (*httptest.ResponseRecorder, map[string]any) {
	t.Helper()
	w := httptest.NewRecorder()
	listener.ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader(body)))
	return w, documentOf(t, w)
}

func documentOf(t testing.TB, w *httptest.ResponseRecorder) (document map[string]any) {
	t.Helper()
	if err := json.Unmarshal(w.Body.Bytes(), &document); err != nil ||
		w.Header().Get("Content-Type") != "application/json" {
		t.Fatalf("status %d, %q: %q: %v", w.Code, w.Header().Get("Content-Type"), w.Body, err)
	}
	return document
}

// errorOf returns kind and message of an error document.
func errorOf(document map[string]any) (kind, message string) {
	told, _ := document["error"].(map[string]any)
	kind, _ = told["kind"].(string)
	message, _ = told["message"].(string)
	return kind, message
}

package api

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/configfile"
	"github.com/limitctl/limitctl/internal/serve/engine"
	"github.com/limitctl/limitctl/internal/tier"
	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/httplimit"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// exactReads is a store that reads only the keys that are named.
type exactReads struct {
	*memorystore.Store
	t    *testing.T
	read []store.Key
	err  error // of the next key
}

func (s *exactReads) Scan(ctx context.Context, q admin.Query) iter.Seq2[admin.Entry, error] {
	if len(q.Keys) == 0 {
		s.t.Errorf("all keys are scanned: %+v", q)
	}
	s.read = append(s.read, q.Keys...)
	if s.err != nil {
		return func(yield func(admin.Entry, error) bool) { yield(admin.Entry{}, s.err) }
	}
	return s.Store.Scan(ctx, q)
}

func subjectListener(t *testing.T) (*exactReads, http.Handler) {
	backend := &exactReads{Store: memorystore.New(), t: t}
	tenants := &policy.Policy{Name: "api", Limits: []policy.Limit{
		{Limit: limiter.Per("minute", 10, time.Hour), By: []string{"tenant"}},
		{Limit: limiter.Per("day", 100, 24*time.Hour), By: []string{"tenant"}},
		{Limit: limiter.Per("user", 5, time.Hour), By: []string{"tenant", "user"}},
	}}
	settings := &engine.Settings{File: configfile.File{Policies: []*policy.Policy{loginPolicy(t), tenants}}}
	return backend, Handler(engineOn(t, backend, settings, time.Minute), Options{Keys: backend, Timeout: time.Minute})
}

func subjectOf(t *testing.T, listener http.Handler, subject string) map[string]map[string]any {
	t.Helper()
	w, document := ask(t, listener, http.MethodGet, "/v1/subject?subject="+url.QueryEscape(subject), "")
	if w.Code != http.StatusOK || document["subject"] != subject {
		t.Fatalf("%q: %d %s", subject, w.Code, w.Body)
	}
	keys := map[string]map[string]any{}
	for _, each := range document["keys"].([]any) {
		key := each.(map[string]any)
		keys[fmt.Sprint(key["name"])] = key
	}
	return keys
}

// A subject is described as inspect does it: by the limits in force, with overrides and denials, and nothing is taken.
func TestSubject(t *testing.T) {
	backend, listener := subjectListener(t)
	for range 3 {
		ask(t, listener, http.MethodPost, "/v1/consume",
			`{"policy":"api","attributes":{"tenant":"acme","user":"7"},"cost":2}`)
	}
	pattern, err := store.ExactPattern("tenant:acme")
	tier.Must(t, err)
	names, err := store.ExactPattern("api/minute")
	tier.Must(t, err)
	if _, err := backend.SetOverride(
		t.Context(), store.Override{Subjects: pattern, Names: names, Effect: store.OverrideTimes,
			Thousandths: 2000, Reason: "launch"}, time.Hour); err != nil {
		t.Fatal(err)
	}
	denied := admin.Denied{Key: store.Key{Subject: "tenant:acme", Name: "api/day"}, Count: 60, LastAt: 1, Since: 1}
	tier.Must(t, backend.AddDenials(t.Context(), admin.Denials{Rows: []admin.Denied{denied}, Now: 1}))
	for range 2 {
		keys := subjectOf(t, listener, "tenant:acme")
		minute, day := keys["api/minute"], keys["api/day"]
		override, _ := minute["override"].(map[string]any)
		if len(keys) != 2 || minute["used"] != 4.0 || minute["count"] != 20.0 || minute["remaining"] != 16.0 ||
			minute["denied"] != 0.0 ||
			override["reason"] != "launch" || day["used"] != 4.0 || day["denied"] != 60.0 || day["override"] != nil {
			t.Errorf("%v", keys)
		}
	}
	if len(backend.read) != 4 {
		t.Errorf("read were %v", backend.read)
	}
	if pattern, err = store.ExactPattern("tenant:evil"); err != nil {
		t.Fatal(err)
	}
	if _, err := backend.SetOverride(t.Context(), store.Override{Subjects: pattern, Effect: store.OverrideBlock},
		time.Hour); err != nil {
		t.Fatal(err)
	}
	for subject, remaining := range map[string]float64{"tenant:new": 10, "tenant:evil": 0} { // who have used nothing
		if minute := subjectOf(t, listener, subject)["api/minute"]; minute["used"] != 0.0 ||
			minute["remaining"] != remaining || minute["store_key"] != "" {
			t.Errorf("%s: %v", subject, minute)
		}
	}
}

// Where a take fails or is denied, nobody is told that nothing is used.
func TestSubjectBesideThePolicies(t *testing.T) {
	backend, listener := subjectListener(t)
	for range 3 {
		ask(t, listener, http.MethodPost, "/v1/consume", `{"key":"user:9","limits":["2/1h"]}`)
	}
	gone := admin.Denied{Key: store.Key{Subject: "user:9", Name: "old/day"}, Count: 7, LastAt: 1, Since: 1,
		Limit: store.Limit{Algorithm: store.TokenBucket, Count: 5, Burst: 5, Period: time.Hour}}
	tier.Must(t, backend.AddDenials(t.Context(), admin.Denials{Rows: []admin.Denied{gone,
		{Key: store.Key{Subject: "user:9", Name: "token-bucket/1h"}, Count: 1, LastAt: 1, Since: 1}}, Now: 1}))
	keys := subjectOf(t, listener, "user:9")
	if plain, old := keys["token-bucket/1h"], keys["old/day"]; len(keys) != 2 || plain["used"] != 2.0 ||
		plain["denied"] != 1.0 || old["denied"] != 7.0 || old["count"] != 5.0 {
		t.Errorf("%v", keys)
	}
	backend.err = &store.ForeignError{StoreKey: "rl:{tenant:a}:api/day", Holds: "a list"}
	if w, document := ask(t, listener, http.MethodGet, "/v1/subject?subject=tenant:a", ""); w.Code != 502 {
		t.Errorf("a foreign value: %v", document)
	}
}

// What is asked about is one subject, of any bytes that a key can have, and a hostile one is only text.
func TestHostileSubjects(t *testing.T) {
	backend, listener := subjectListener(t)
	long := strings.Repeat("x", store.MaxSubjectLength)
	for _, subject := range []string{"tenant:<script>alert(1)</script>", "tenant:*", "tenant:" + long[len("tenant:"):],
		"*"} {
		subjectOf(t, listener, subject)
	}
	for _, query := range []string{"", "?subject=", "?subject=a&subject=b", "?subject=a&other=b", "?subject=%zz",
		"?subject=a;b",
		"?subject=" + long + "x", "?subject=%ff", "?subject=%00", "?subject=%1b]0;x%07"} {
		w, document := ask(t, listener, http.MethodGet, "/v1/subject"+query, "")
		if kind, _ := errorOf(document); w.Code != http.StatusBadRequest || kind != "usage" {
			t.Errorf("%.40q: %d %.200s", query, w.Code, w.Body)
		}
	}
	if w, _ := ask(t, listener, http.MethodPost, "/v1/subject?subject=a", ""); w.Code != http.StatusMethodNotAllowed ||
		w.Header().Get("Allow") != "GET, HEAD" {
		t.Errorf("POST: %d %s", w.Code, w.Body)
	}
	if len(backend.read) > 8 {
		t.Errorf("read were %v", backend.read)
	}
}

// The address of a client is what forward-auth makes of it, where the policy takes the attribute from the client.
func TestAnAddressIsItsClient(t *testing.T) {
	backend := memorystore.New()
	policyOf := func(name string) *policy.Policy {
		return &policy.Policy{Name: name, Limits: []policy.Limit{
			{Limit: limiter.Per("ip", 2, time.Hour), By: []string{"ip"}},
		}}
	}
	client := httplimit.Rule{Attributes: map[string]httplimit.Source{"ip": httplimit.MustSource("client")}}
	e := engineOn(t, backend, &engine.Settings{
		File: configfile.File{Policies: []*policy.Policy{policyOf("web"), policyOf("other")},
			HTTP: httplimit.Settings{Rules: map[string]httplimit.Rule{"web": client}}}}, time.Minute)
	listener := Handler(e, Options{Keys: backend, Timeout: time.Minute})
	question := func(policy, ip string) string {
		return fmt.Sprintf(`{"policy":%q,"attributes":{"ip":%q}}`, policy, ip)
	}
	for _, each := range []string{question("web", "2001:db8::1"), question("web", "[2001:DB8:0:0:9::]"),
		question("other", "2001:DB8::1")} {
		ask(t, listener, http.MethodPost, "/v1/consume", each)
	}
	for _, test := range []struct{ policy, ip, key, remaining string }{
		{"web", "2001:db8:0:0:ffff::", "ip=2001:db8::/64", "0"}, {"web", "2001:db8:0:1::", "ip=2001:db8:0:1::/64", "2"},
		{"web", "64:ff9b::198.51.100.1", "ip=198.51.100.1", "2"}, {"web", "guest", "ip=guest", "2"},
		{"other", "2001:DB8::1", "ip=2001:DB8::1", "1"}, {"other", "2001:db8::1", "ip=2001:db8::1", "2"},
	} {
		w, document := ask(t, listener, http.MethodPost, "/v1/check", question(test.policy, test.ip))
		if document["key"] != test.key || fmt.Sprint(document["remaining"]) != test.remaining {
			t.Errorf("%+v: %s", test, w.Body)
		}
	}
	for subject, ofOther := range map[string]string{"ip:2001:db8::1": "ip:2001:db8::1",
		"ip:2001:db8::/64": "ip:2001%3Adb8%3A%3A/64"} { // as tables show it
		keys := subjectOf(t, listener, subject)
		if web, other := keys["web/ip"], keys["other/ip"]; web["used"] != 2.0 ||
			web["key"] != "ip:2001%3Adb8%3A%3A/64" || other["used"] != 0.0 || other["key"] != ofOther {
			t.Errorf("%s: %v", subject, keys)
		}
	}
}

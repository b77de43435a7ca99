package httplimit

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// A limit warns from its share on, up to a denial, and no other limit does.
func TestALimitWarnsFromItsShareOn(t *testing.T) {
	of := func(name, limit string, warn store.Share) policy.Limit {
		return policy.Limit{Limit: limiter.LimitOf(name, limitOf(limit)), By: []string{"ip"}, Warn: warn}
	}
	p := &policy.Policy{Name: "site", Limits: []policy.Limit{
		of("day", "fixed-window:6/366d", 80*store.WholeShare/100), of("burst", "token-bucket:3/366d,burst=7", store.WholeShare),
		of("silent", "6/366d", 0), of("shadow", "6/366d", 1)}}
	p.Limits[3].Shadow = true
	for _, headers := range []Headers{AllHeaders, RetryAfter} {
		limits, err := limiter.New(memorystore.New())
		if err != nil {
			t.Fatal(err)
		}
		defer limits.Close()
		rule := Rule{Attributes: map[string]Source{"ip": MustSource("client")}}
		m, err := New(limits, p, Options{Headers: headers, Rule: rule})
		if err != nil {
			t.Fatal(err)
		}
		handler := m.Wrap(http.NotFoundHandler())
		for i, want := range []string{"", "", "", "", `"day";used=83`, `"day";used=100`, `"day";used=100`} {
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
			if got := strings.Join(w.Header()["X-Ratelimit-Warning"], " and "); got != want {
				t.Errorf("headers %d, request %d warns of %q, not of %q", headers, i+1, got, want)
			}
		}
	}
}

// The share is one of what the limit is now: an operator's override and a local share change it. Nothing is known of a limit
// that was not asked, and a limit that does not apply does not warn.
func TestAWarningIsAboutTheLimitThatApplies(t *testing.T) {
	limits := []policy.Limit{{Limit: limiter.Limit{Name: "a"}, Warn: store.WholeShare / 2}}
	reqs := []store.Request{{Limit: store.Limit{Count: 10, Period: 1e9}}}
	for _, test := range []struct {
		name     string
		decision store.Decision
		want     string
	}{
		{"below", store.Decision{Used: 4}, ""},
		{"at", store.Decision{Used: 5}, `"a";used=50`},
		{"beyond", store.Decision{Used: 25}, `"a";used=250`},
		{"doubled", store.Decision{Used: 5, Override: &store.Override{Effect: store.OverrideTimes, Thousandths: 2000}}, ""},
		{"exempt", store.Decision{Used: 10, Override: &store.Override{Effect: store.OverrideExempt}}, ""},
		{"local", store.Decision{Used: 2, LocalShare: store.WholeShare / 5}, `"a";used=100`},
		{"unguarded", store.Decision{Used: 10, Unguarded: true}, ""},
	} {
		header := http.Header{}
		AllHeaders.SetWarning(header, nil, limits, reqs, []store.Decision{test.decision})
		if got := header.Get("X-RateLimit-Warning"); got != strings.Replace(test.want, `"a"`, `"default"`, 1) {
			t.Errorf("%s: %q, not %q", test.name, got, test.want)
		}
	}
	header := http.Header{}
	Headers(0).SetWarning(header, nil, limits, reqs, []store.Decision{{Used: 10}})
	if len(header) > 0 {
		t.Errorf("without any headers: %v", header)
	}
}

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
	of := func(name, text string, warn store.Share) policy.Limit {
		limit, err := limiter.ParseLimit(name, text)
		if err != nil {
			t.Fatal(err)
		}
		return policy.Limit{Limit: limit, By: []string{"ip"}, Warn: warn}
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

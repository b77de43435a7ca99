package httplimit_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/httplimit"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

func limitsBy(by ...[]string) *policy.Policy {
	p := &policy.Policy{Name: "p"}
	for i, names := range by {
		p.Limits = append(p.Limits, policy.Limit{Name: fmt.Sprint("limit-", i), By: names,
			Limit: store.Limit{Algorithm: store.TokenBucket, Count: 1e9, Period: time.Hour, Burst: 1e9}})
	}
	return p
}

func BenchmarkHeaders(b *testing.B) {
	for _, limits := range []int{1, 2} {
		b.Run(fmt.Sprint(limits), func(b *testing.B) {
			p := limitsBy([]string{"ip"}, []string{"user"})
			reqs, err := p.Requests(policy.Attributes{"ip": "192.0.2.1", "user": "ada"}, 1)
			if err != nil {
				b.Fatal(err)
			}
			reqs = reqs[:limits]
			decisions := make([]store.Decision, limits)
			if err := memorystore.New().Decide(context.Background(), store.Take, reqs, decisions); err != nil {
				b.Fatal(err)
			}
			names := []string{"limit-0", "limit-1"}
			header := http.Header{}
			b.ReportAllocs()
			for b.Loop() {
				httplimit.AllHeaders.Set(header, names, reqs, decisions)
			}
		})
	}
}

// Measures a request through the middleware, and the handler alone.
func BenchmarkMiddleware(b *testing.B) {
	next := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	rule := httplimit.Rule{Attributes: map[string]httplimit.Source{
		"ip": httplimit.MustSource("client"), "user": httplimit.MustSource("header:X-User"),
	}}
	one := rule
	one.Attributes = map[string]httplimit.Source{"ip": rule.Attributes["ip"]}
	network, err := httplimit.ParseNetwork("10.0.0.0/8")
	if err != nil {
		b.Fatal(err)
	}
	for _, bench := range []struct {
		name string
		p    *policy.Policy
		rule httplimit.Rule
	}{
		{"none", nil, rule}, {"one-limit", limitsBy([]string{"ip"}), one},
		{"two-limits", limitsBy([]string{"ip"}, []string{"ip", "user"}), rule},
	} {
		b.Run(bench.name, func(b *testing.B) {
			handler := http.Handler(next)
			if bench.p != nil {
				m, err := httplimit.New(door(b, memorystore.New()), bench.p, httplimit.Options{
					Rule: bench.rule, Clients: httplimit.Clients{Trusted: []netip.Prefix{network}},
				})
				if err != nil {
					b.Fatal(err)
				}
				handler = m.Wrap(next)
			}
			r := httptest.NewRequest("GET", "/a/b", nil)
			r.RemoteAddr = "10.0.0.1:1234"
			r.Header.Set("X-Forwarded-For", "198.51.100.7, 192.0.2.1")
			r.Header.Set("X-User", "ada")
			w := &discard{header: http.Header{}}
			b.ReportAllocs()
			for b.Loop() {
				clear(w.header)
				handler.ServeHTTP(w, r)
			}
		})
	}
}

// discard is a response writer that drops the body.
type discard struct{ header http.Header }

func (d *discard) Header() http.Header            { return d.header }
func (d *discard) Write(text []byte) (int, error) { return len(text), nil }
func (d *discard) WriteHeader(int)                {}

package api

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
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
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// authListener is a handler with policies "site", by client, method, host, path and user, and "cheap", by client alone.
// The proxy 10.0.0.1 is trusted.
func authListener(t testing.TB) http.Handler {
	by := []string{"client", "method", "host", "path", "user"}
	attributes := map[string]httplimit.Source{"user": httplimit.MustSource("header:X-User")}
	for _, name := range by[:4] {
		attributes[name] = httplimit.MustSource(name)
	}
	settings := &engine.Settings{File: configfile.File{
		Policies: []*policy.Policy{
			{Name: "site", Limits: []policy.Limit{{Limit: limiter.Per("all", 1, time.Hour), By: by}}},
			{Name: "cheap", Limits: []policy.Limit{
				{Limit: limiter.Per("client", 1, time.Hour), By: []string{"client"}}}},
			// no http
			{Name: "bare", Limits: []policy.Limit{
				{Limit: limiter.Per("client", 1, time.Hour), By: []string{"client"}}}},
		},
		HTTP: httplimit.Settings{
			Headers: httplimit.AllHeaders,
			Clients: httplimit.Clients{Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.1/32")}},
			Rules: map[string]httplimit.Rule{
				"site": {Attributes: attributes},
				"cheap": {Attributes: map[string]httplimit.Source{"client": httplimit.MustSource("client")},
					DeniedStatus: 403,
					Skip: httplimit.Skip{
						Methods: []string{"OPTIONS"}, Paths: []string{"/healthz", "/static/*"}}},
			},
		},
	}}
	return Handler(engineOn(t, memorystore.New(), settings, time.Minute), Options{})
}

// authRequest is a request of a proxy; fields are "Name: value".
func authRequest(method, path, peer string, fields ...string) *http.Request {
	r := httptest.NewRequest(method, path, nil)
	r.RemoteAddr = peer
	for _, field := range fields {
		name, value, _ := strings.Cut(field, ": ")
		r.Header.Add(name, value)
	}
	return r
}

func TestForwardAuthMapsTheOriginalRequest(t *testing.T) {
	// Each request goes to a new handler, after one with the same attributes. So the limit of one denies it.
	first := []string{"X-Forwarded-For: 203.0.113.9", "X-User: ann", "X-Forwarded-Method: PUT",
		"X-Forwarded-Uri: /a/b?c=d",
		"X-Forwarded-Host: shop.example"}
	for name, again := range map[string]*http.Request{
		"Traefik and Caddy": authRequest("GET", "/v1/auth/site", "127.0.0.1:999", first...),
		"another loopback":  authRequest("POST", "/v1/auth/site", "[::1]:999", first...),
		"a trusted proxy":   authRequest("GET", "/v1/auth/site", "10.0.0.1:80", first...),
		"nginx": authRequest("GET", "/v1/auth/site", "127.0.0.1:999", "X-Forwarded-For: 6.6.6.6, 203.0.113.9",
			"X-User: ann",
			"X-Original-Method: PUT", "X-Original-URI: /a/b?c=d", "X-Forwarded-Host: shop.example"),
		"nginx in Kubernetes": authRequest("GET", "/v1/auth/site", "127.0.0.1:999", "X-Forwarded-For: 203.0.113.9",
			"X-User: ann",
			"X-Original-Method: PUT", "X-Original-URL: https://shop.example/a/b?c=d"),
		"the path behind the policy": authRequest("PUT", "http://shop.example/v1/auth/site/a/b?c=d", "127.0.0.1:999",
			"X-Forwarded-For: 203.0.113.9", "X-User: ann"),
		"agreement": authRequest("GET", "/v1/auth/site", "127.0.0.1:999",
			append(slices.Clone(first), "X-Original-Method: PUT",
				"X-Original-URI: /a/b?c=d")...),
	} {
		listener := authListener(t)
		for i, want := range []int{204, 429} {
			r := authRequest("GET", "/v1/auth/site", "127.0.0.1:999", first...)
			if i == 1 {
				r = again
			}
			w := httptest.NewRecorder()
			if listener.ServeHTTP(w, r); w.Code != want {
				t.Errorf("%s: answer %d is %d %s, want %d", name, i, w.Code, w.Body, want)
			}
			if w.Header().Get("RateLimit-Policy") != `"all";q=1;w=3600` ||
				(w.Header().Get("Retry-After") != "") != (want == 429) {
				t.Errorf("%s: answer %d has %v", name, i, w.Header())
			}
			if want == 204 && w.Body.Len() > 0 {
				t.Errorf("%s: 204 with a body %q", name, w.Body)
			}
		}
	}
}

func TestForwardAuthIsRefused(t *testing.T) {
	listener := authListener(t)
	for _, test := range []struct {
		r      *http.Request
		status int
		says   string
	}{
		{authRequest("GET", "/v1/auth/chep", "127.0.0.1:1"), 404, `policy "chep" is unknown; did you mean cheap?`},
		{authRequest("GET", "/v1/auth/cheap", "10.0.0.2:1"), 400,
			"10.0.0.2 is not a trusted proxy; add it to trusted_proxies"},
		{authRequest("GET", "/v1/auth/cheap", "@"), 400, "is not a trusted proxy"},
		{authRequest("GET", "/v1/auth/site", "127.0.0.1:1"), 400, `policy "site" needs the attribute user; `},
		{authRequest("GET", "/v1/auth/bare", "127.0.0.1:1"), 400,
			`policy "bare" needs the attribute client; add client=VALUE; http.attributes of the policy says where in a request it is`},
		{authRequest("GET", "/v1/auth/cheap", "127.0.0.1:1", "X-Forwarded-Method: GET", "X-Original-Method: OPTIONS"),
			400,
			`X-Forwarded-Method is "GET" and X-Original-Method is "OPTIONS"; the proxy must set or remove both`},
		{authRequest("GET", "/v1/auth/cheap", "127.0.0.1:1", "X-Forwarded-Uri: /a", "X-Original-URI: /healthz"), 400,
			"the proxy must set or remove"},
		{authRequest("GET", "/v1/auth/cheap", "127.0.0.1:1", "X-Original-URI: /a", "X-Original-URI: /healthz"), 400,
			"the proxy must set or remove"},
		{authRequest("GET", "/v1/auth/cheap/a", "127.0.0.1:1", "X-Original-URI: /healthz"), 400,
			"name different requests"},
		// A proxy that appends the original path to the policy, for / and a client that adds a field.
		{authRequest("GET", "/v1/auth/cheap/", "127.0.0.1:1", "X-Forwarded-Uri: /healthz"), 400,
			"name different requests"},
		{authRequest("GET", "/v1/auth/cheap", "127.0.0.1:1", "X-Original-URI: a b"), 400,
			"is not an address like /path?query"},
	} {
		w := httptest.NewRecorder()
		listener.ServeHTTP(w, test.r)
		if _, message := errorOf(documentOf(t, w)); w.Code != test.status || !strings.Contains(message, test.says) {
			t.Errorf("%s %v: %d %s, want %d with %q", test.r.URL, test.r.Header, w.Code, w.Body, test.status, test.says)
		}
	}
}

func TestForwardAuthDeniesAsConfigured(t *testing.T) {
	listener := authListener(t)
	get := func(fields ...string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		listener.ServeHTTP(w, authRequest("GET", "/v1/auth/cheap", "127.0.0.1:1",
			append(fields, "X-Forwarded-For: 203.0.113.9")...))
		return w
	}
	for i, test := range []struct {
		fields []string
		want   int
	}{
		{nil, 204}, {nil, 403},
		{[]string{"X-Forwarded-Method: OPTIONS"}, 204},
		{[]string{"X-Original-URI: /healthz?x"}, 204},
		{[]string{"X-Original-URI: /static/a.css"}, 204},
		{[]string{"X-Original-URI: /healthzz"}, 403},
	} {
		w := get(test.fields...)
		if w.Code != test.want {
			t.Errorf("answer %d to %v is %d %s, want %d", i, test.fields, w.Code, w.Body, test.want)
		}
		if w.Code == 403 && (w.Header().Get("Content-Type") != "application/problem+json" ||
			!strings.Contains(w.Body.String(), `"status":403`)) {
			t.Errorf("the denial is %v %s", w.Header(), w.Body)
		}
		if skipped := i >= 2 && test.want == 204; skipped && w.Header().Get("RateLimit") != "" {
			t.Errorf("what is not limited has %v", w.Header())
		}
	}
}

// nginx announces the original body to auth_request and does not send it.
func TestForwardAuthDoesNotWaitForABody(t *testing.T) {
	server := httptest.NewServer(authListener(t))
	defer server.Close()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(20 * time.Second))
	io.WriteString(conn, "POST /v1/auth/cheap HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n")
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || answer.StatusCode != 204 {
		t.Fatalf("%v, %v", answer, err)
	}
}

// failing is a store that returns an error.
type failing struct {
	admin.Keyspace
	err error
}

func (*failing) Close() error { return nil }

func (f *failing) Decide(_ context.Context, _ store.Op, _ []store.Request, _ []store.Decision) error {
	return f.err
}

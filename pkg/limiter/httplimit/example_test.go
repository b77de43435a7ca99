package httplimit_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/httplimit"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/policyfile"
)

// Three logins an hour for each address.
func Example() {
	login := &policy.Policy{Name: "login", Limits: []policy.Limit{
		{
			Limit: limiter.Limit{Name: "address", Algorithm: limiter.SlidingLog, Count: 3, Period: time.Hour},
			By:    []string{"ip"},
		},
	}}
	limits, err := limiter.New(memorystore.New()) // a service of several processes has a redisstore here
	if err != nil {
		fmt.Println(err)
		return
	}
	limit, err := httplimit.New(limits, login, httplimit.Options{
		Rule: httplimit.Rule{Attributes: map[string]httplimit.Source{"ip": httplimit.MustSource("client")}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	mux := http.NewServeMux()
	mux.Handle("/login", limit.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "welcome")
	})))

	for range 4 {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest("POST", "/login", nil))
		fmt.Println(w.Code, w.Header().Get("RateLimit"))
		if w.Code != http.StatusOK {
			fmt.Println("Retry-After:", w.Header().Get("Retry-After"))
		}
	}
	// Output:
	// 200 "address";r=2;t=3600
	// 200 "address";r=1;t=3600
	// 200 "address";r=0;t=3600
	// 429 "address";r=0;t=3600
	// Retry-After: 3600
}

// must is for the other examples; a service handles the error.
func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// get sends a request with a header field, and returns the answer.
func get(handler http.Handler, path, field, value string) *httptest.ResponseRecorder {
	r, w := httptest.NewRequest("GET", path, nil), httptest.NewRecorder()
	r.Header.Set(field, value)
	handler.ServeHTTP(w, r)
	return w
}

// Policies and rules come from the file that the command validates, so the server limits requests like `limitctl
// serve`.
func Example_file() {
	file := must(policyfile.Parse("limitctl.yaml", []byte(`
http: {trusted_proxies: [10.0.0.0/8], headers: [ratelimit, retry-after]}
policies:
  api:
    on_error: local
    http:
      attributes: {user: "header:X-User", ip: client}
      skip: {methods: [OPTIONS], paths: [/healthz, /static/*]}
    limits:
      - {name: user, by: [user], limit: 1000/1h}
      - {name: address, by: [ip], limit: 100/1m, algorithm: fixed-window}
`)))
	policies := must(policyfile.NewRuntime(file, memorystore.New())) // applies on_error and the overrides of operators
	defer policies.Close()
	limit := must(policies.Middleware("api"))
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") })
	server := limit(mux)

	for _, path := range []string{"/orders", "/healthz"} {
		w := get(server, path, "X-User", "ada")
		fmt.Println(path, w.Code, w.Header().Get("RateLimit-Policy"))
	}
	// Output:
	// /orders 200 "user";q=1000;w=3600,"address";q=100;w=60
	// /healthz 200
}

// Only failed logins count: one that succeeds gets its unit back. A handler sees the decision.
func ExampleOptions_countIf() {
	limits := must(limiter.New(memorystore.New()))
	login := &policy.Policy{Name: "login", Limits: []policy.Limit{
		{Limit: limiter.Per("failures", 5, time.Minute), By: []string{"ip"}},
	}}
	limit := must(httplimit.New(limits, login, httplimit.Options{
		Rule:    httplimit.Rule{Attributes: map[string]httplimit.Source{"ip": httplimit.MustSource("client")}},
		CountIf: func(_ *http.Request, status int) bool { return status == http.StatusUnauthorized },
	}))
	handler := limit.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Println(httplimit.OutcomeOf(r.Context()).Decisions().Remaining(), "left")
		if r.FormValue("password") != "secret" {
			http.Error(w, "wrong password", http.StatusUnauthorized)
		}
	}))
	for _, password := range []string{"wrong", "secret", "wrong"} {
		handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("POST", "/?password="+password, nil))
	}
	// Output:
	// 4 left
	// 3 left
	// 3 left
}

// Requests can cost more than one unit, be limited by what the service knows about them, and get an answer of the
// service.
func ExampleOptions() {
	export := &policy.Policy{Name: "export", Limits: []policy.Limit{
		{
			Limit: limiter.Limit{Name: "rows", Algorithm: limiter.FixedWindow, Count: 1000, Period: 24 * time.Hour},
			By:    []string{"tenant"},
		},
	}}
	limits := must(limiter.New(memorystore.New()))
	limit := must(httplimit.New(limits, export, httplimit.Options{
		Attributes: func(r *http.Request) (policy.Attributes, error) {
			tenant, known := map[string]string{"key-1": "acme"}[r.Header.Get("X-API-Key")]
			if !known {
				tenant = "guests" // who all share one limit
			}
			return policy.Attributes{"tenant": tenant}, nil
		},
		Cost: func(r *http.Request) int64 {
			if r.URL.Path == "/all" {
				return 600
			}
			return 1
		},
		Denied: func(w http.ResponseWriter, _ *http.Request, o *httplimit.Outcome) {
			text := fmt.Sprintf("%s: only %d rows are left today", o.Requests()[0].Subject(), o.Decisions().Remaining())
			http.Error(w, text, http.StatusTooManyRequests)
		},
	}))
	handler := limit.Wrap(http.NotFoundHandler())
	for _, path := range []string{"/all", "/all"} {
		w := get(handler, path, "X-API-Key", "key-1")
		fmt.Print(w.Code, " ", w.Body)
	}
	// Output:
	// 404 404 page not found
	// 429 tenant:acme: only 400 rows are left today
}

// Each key may send ten requests a second and a thousand an hour. The store sees a hash of the key.
func ExamplePerKey() {
	limits := must(limiter.New(memorystore.New(), limiter.FailLocal(0.25)))
	defer limits.Close()
	limit := must(httplimit.PerKey(limits, "hash:header:X-API-Key",
		limiter.Per("second", 10, time.Second), limiter.Per("hour", 1000, time.Hour)))
	server := limit(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") }))

	for _, key := range []string{"key-1", ""} {
		w := get(server, "/", "X-API-Key", key)
		fmt.Println(w.Code, w.Header().Get("RateLimit-Policy"))
	}
	// Output:
	// 200 "second";q=10;w=1,"hour";q=1000;w=3600
	// 400
}

// The limit of each customer comes from the service's own data.
func ExampleNewFunc() {
	limits := must(limiter.New(memorystore.New()))
	defer limits.Close()
	plans := map[string]int64{"acme": 2, "globex": 100}
	limit := must(httplimit.NewFunc(limits, func(r *http.Request) ([]limiter.Request, error) {
		tenant := r.Header.Get("X-Tenant")
		if plans[tenant] == 0 {
			return nil, nil // is not limited
		}
		return []limiter.Request{limiter.Per("plan", plans[tenant], time.Hour).For("tenant", tenant)}, nil
	}, httplimit.Options{}))
	server := limit.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") }))

	for _, tenant := range []string{"acme", "globex", "nobody"} {
		w := get(server, "/", "X-Tenant", tenant)
		fmt.Printf("%d %q\n", w.Code, w.Header().Get("RateLimit"))
	}
	// Output:
	// 200 "\"plan\";r=1;t=1800"
	// 200 "\"plan\";r=99;t=36"
	// 200 ""
}

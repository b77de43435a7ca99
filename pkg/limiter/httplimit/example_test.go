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

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
)

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

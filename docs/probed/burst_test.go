package main

import (
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"
)

// server is a server of others, and its limits.
type server struct {
	name   string
	start  func(*testing.T) (address string)
	limits []enforced
}

// enforced is a limit of a server.
type enforced struct {
	path string
	// atOnce is the number of requests that it allows at once, and denied the status of the others.
	atOnce, denied int
	// headers are fields of a denial.
	headers []string
}

// The counts follow from the configurations. nginx allows one request more than the burst: the one under way.
var servers = []server{
	{"nginx", startNginx, []enforced{
		{"/plain", 1, 503, nil}, {"/nodelay", 6, 503, nil}, {"/429", 6, 429, nil}, {"/queue", 6, 503, nil}, {"/delay", 6, 503, nil},
	}},
	{"haproxy", startHAProxy, []enforced{{"/rate", 10, 429, nil}, {"/counter", 10, 429, nil}}},
	{"node", startNode, []enforced{
		{"/draft-8", 10, 429, []string{"RateLimit", "RateLimit-Policy", "Retry-After"}},
		{"/draft-7", 10, 429, []string{"RateLimit", "RateLimit-Policy", "Retry-After"}},
		{"/draft-6", 10, 429, []string{"RateLimit-Remaining", "RateLimit-Policy", "Retry-After"}},
		{"/legacy", 10, 429, []string{"X-RateLimit-Remaining", "X-RateLimit-Reset", "Retry-After"}},
	}},
	{"go", startGo, []enforced{
		{"/httprate", 10, 429, []string{"X-RateLimit-Remaining", "X-RateLimit-Reset", "Retry-After"}},
		{"/ulule", 10, 429, []string{"X-RateLimit-Remaining", "X-RateLimit-Reset"}},
		{"/sethvargo", 10, 429, []string{"X-RateLimit-Remaining", "X-RateLimit-Reset", "Retry-After"}},
	}},
}

// The servers limit as configured, which is the reference for a probe.
func TestTheServersLimit(t *testing.T) {
	for _, s := range servers {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			address := s.start(t)
			for _, limit := range s.limits {
				deadline := time.Now().Add(patience)
				for try := 0; ; try++ {
					allowed, elapsed, denials := burst(t, "http://"+address+limit.path+"?user="+strconv.Itoa(try))
					// If one request has leaked meanwhile, or at the edge of a window, more are allowed.
					if allowed != limit.atOnce && (elapsed > 50*time.Millisecond || try < 3) && time.Now().Before(deadline) {
						continue
					}
					if allowed != limit.atOnce {
						t.Errorf("%s lets %d through at once, want %d", limit.path, allowed, limit.atOnce)
					}
					for _, denial := range denials {
						for _, field := range limit.headers {
							if denial.Header.Get(field) == "" {
								t.Errorf("%s denies without %s: %v", limit.path, field, denial.Header)
							}
						}
						if denial.StatusCode != limit.denied || len(limit.headers) == 0 && denial.Header.Get("Retry-After") != "" {
							t.Errorf("%s denies with %s and %v", limit.path, denial.Status, denial.Header)
						}
					}
					break
				}
			}
		})
	}
}

// burst sends twenty requests at once, and returns how many were allowed, the time until all were sent and the
// denials had arrived, and the denials.
func burst(t *testing.T, url string) (allowed int, elapsed time.Duration, denials []*http.Response) {
	t.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: 20}
	defer transport.CloseIdleConnections()
	var mu sync.Mutex
	var all sync.WaitGroup
	began := time.Now()
	for range 20 {
		all.Go(func() {
			request, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
			response, err := transport.RoundTrip(request)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
				return
			}
			response.Body.Close()
			if response.StatusCode == http.StatusOK {
				allowed++
			} else {
				denials = append(denials, response)
				elapsed = time.Since(began)
			}
		})
	}
	all.Wait()
	return allowed, elapsed, denials
}

package api

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/redisstore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// redisListener is a server that decides in a Redis with these credentials.
func redisListener(t *testing.T, address, user, password string, timeout time.Duration, policies ...*policy.Policy) *httptest.Server {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: address, Username: user, Password: password, ContextTimeoutEnabled: true,
		DisableIdentity: true, MaxRetries: -1, DialerRetries: 1})
	backend, err := redisstore.Own(client)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(listenerOn(t, backend, timeout, policies...))
	server.Client().Transport.(*http.Transport).MaxIdleConnsPerHost = 128
	t.Cleanup(func() {
		server.Close()
		backend.Close()
		client.Close()
	})
	return server
}

// post sends a body, and returns the status.
func post(t *testing.T, server *httptest.Server, verb, body string) int {
	answer, err := server.Client().Post(server.URL+"/v1/"+verb, "application/json", strings.NewReader(body))
	if err != nil {
		t.Error(err)
		return 0
	}
	defer answer.Body.Close()
	if _, err := io.Copy(io.Discard, answer.Body); err != nil {
		t.Error(err)
	}
	return answer.StatusCode
}

// together sends a body n times from 64 clients, and counts the statuses.
func together(t *testing.T, n int, server *httptest.Server, body string) map[int]int {
	const clients = 64
	var mu sync.Mutex
	var left atomic.Int64
	left.Store(int64(n))
	statuses := map[int]int{}
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			for left.Add(-1) >= 0 {
				status := post(t, server, "consume", body)
				mu.Lock()
				statuses[status]++
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return statuses
}

func TestManyClientsOfOneKeyGetWhatOneWould(t *testing.T) {
	server := redisListener(t, redistest.Start(t).Addr, "", "", time.Minute)
	year := fmt.Sprintf("%dh", int(redistest.LongPeriod().Hours()))
	for _, limit := range []string{"100/366d", "fixed-window:100/" + year, "sliding-log:100/366d"} {
		got := together(t, 1000, server, `{"key":"`+limit+`","limits":["`+limit+`"]}`)
		if got[200] != 100 || got[429] != 900 {
			t.Errorf("%s: 1000 requests were answered %v, want 100 times 200 and 900 times 429", limit, got)
		}
	}
}

func TestATokenIsChargedOnce(t *testing.T) {
	server := redisListener(t, redistest.Start(t).Addr, "", "", time.Minute)
	if got := together(t, 100, server, `{"key":"a","limits":["1000/366d"],"cost":7,"token":"order-1"}`); got[200] != 100 {
		t.Fatalf("a hundred repeats were answered %v, want 200 each time", got)
	}
	w := httptest.NewRecorder()
	r := httptest.NewRequest("POST", "/v1/check", strings.NewReader(`{"key":"a","limits":["1000/366d"]}`))
	server.Config.Handler.ServeHTTP(w, r)
	if document := documentOf(t, w); document["remaining"] != 993.0 {
		t.Errorf("after a hundred repeats of 7 units %v of 1000 remain, want 993", document["remaining"])
	}
}

func TestStoresThatDoNotDecide(t *testing.T) {
	on := func(p store.FailurePolicy) *policy.Policy {
		return &policy.Policy{Name: p.String(), OnError: p, Limits: []policy.Limit{{Name: "all", By: []string{"ip"},
			Limit: limitOf(t, "8/1h")}}}
	}
	policies := []*policy.Policy{on(store.FailOnError), on(store.AllowOnError), on(store.DenyOnError), on(store.LocalOnError)}
	for _, test := range []struct {
		name string
		args []string
		harm func(server *redistest.Server)
		user [2]string
		kind string // of fail
		// The statuses of a consume by on_error: fail, allow, deny, local.
		want [4]int
	}{
		{"killed", nil, func(s *redistest.Server) { s.Kill() }, [2]string{}, "store_away", [4]int{503, 200, 429, 200}},
		{"paused", nil, func(s *redistest.Server) { s.Pause() }, [2]string{}, "outcome_unknown", [4]int{503, 200, 429, 200}},
		{"out of memory", nil, func(s *redistest.Server) { s.Do("CONFIG", "SET", "maxmemory", "1") }, [2]string{}, "refused",
			[4]int{502, 502, 502, 502}},
		{"wrong password", []string{"--requirepass", "secret"}, func(*redistest.Server) {}, [2]string{"", "hunter2"}, "refused",
			[4]int{502, 502, 502, 502}},
		{"read-only replica", nil, func(s *redistest.Server) { s.Do("REPLICAOF", "127.0.0.1", "1") }, [2]string{}, "store_away",
			[4]int{503, 200, 429, 200}}, // another server becomes the master soon
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			redis := redistest.Start(t, test.args...)
			timeout := redistest.Patience
			if test.name == "paused" { // the call waits for it
				timeout = 300 * time.Millisecond
			}
			var server *httptest.Server
			redistest.Patiently(t, timeout, func(timeout time.Duration) (missing error) {
				server = redisListener(t, redis.Addr, test.user[0], test.user[1], timeout, policies...)
				if test.user[1] != "" {
					return nil
				}
				// So that a connection exists.
				if status := post(t, server, "consume", `{"key":"before","limits":["1000/1h"]}`); status != 200 {
					return fmt.Errorf("a sound store is answered %d", status)
				}
				return nil
			})
			test.harm(redis)
			for i, p := range policies {
				w := httptest.NewRecorder()
				server.Config.Handler.ServeHTTP(w, httptest.NewRequest("POST", "/v1/consume",
					strings.NewReader(`{"policy":"`+p.Name+`","attributes":{"ip":"x"}}`)))
				document := documentOf(t, w)
				kind, message := errorOf(document)
				if w.Code != test.want[i] || strings.Contains(w.Body.String(), "hunter2") {
					t.Errorf("on_error %s: %d %s, want %d", p.Name, w.Code, w.Body, test.want[i])
				}
				if i == 0 && (kind != test.kind || message == "") || w.Code >= 500 && kind == "" {
					t.Errorf("on_error %s: the error is %s %q, want %s", p.Name, kind, message, test.kind)
				}
				if share := document["local_share"]; (p.OnError == store.LocalOnError && w.Code == 200) != (share == "25%") {
					t.Errorf("on_error %s: local_share is %v", p.Name, share)
				}
				if unknown := document["outcome"] == "unknown"; unknown != (kind == "outcome_unknown") {
					t.Errorf("on_error %s: %s", p.Name, w.Body)
				}
			}
		})
	}
}

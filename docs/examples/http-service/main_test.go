package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/pkg/limiter/redisstore"
)

// started is a service with its own Redis, and its log.
type started struct {
	*service
	server *redistest.Server

	mu  sync.Mutex
	log strings.Builder
}

func start(t *testing.T) *started {
	t.Helper()
	s := &started{server: redistest.Start(t)}
	store, err := redisstore.Open(redis.UniversalOptions{Addrs: []string{s.server.Addr}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	s.service, err = newService(store, func(format string, args ...any) {
		s.mu.Lock()
		defer s.mu.Unlock()
		fmt.Fprintf(&s.log, format+"\n", args...)
	}, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.limits.Close() })
	return s
}

func (s *started) get(user string) *http.Response {
	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("X-User", user)
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w.Result()
}

func (s *started) logged(text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Contains(s.log.String(), text)
}

func TestAUserIsLimitedAndOthersAreNot(t *testing.T) {
	s := start(t)
	denied := 0
	for range 40 { // faster than one a second
		if response := s.get("ada"); response.StatusCode == http.StatusTooManyRequests {
			denied++
			if response.Header.Get("Retry-After") != "1" {
				t.Errorf("Retry-After is %q", response.Header.Get("Retry-After"))
			}
		}
	}
	if denied == 0 {
		t.Error("nobody was denied")
	}
	for _, user := range []string{"bob", "{", strings.Repeat("x", 4000), "ada\t"} {
		if got := s.get(user).StatusCode; got != http.StatusOK {
			t.Errorf("%.20q gets %d", user, got)
		}
	}
	if got := s.get("").StatusCode; got != http.StatusUnauthorized {
		t.Errorf("nobody gets %d", got)
	}
}

// While the Redis hangs, the process decides. When the Redis is back, it decides again.
func TestAHangingRedisIsSurvived(t *testing.T) {
	s := start(t)
	if by := s.get("ada").Header.Get("X-Decided-By"); by != "store" {
		t.Fatalf("decided by %q", by)
	}
	s.server.Pause()
	t.Cleanup(s.server.Resume)
	for !s.logged("breaker open") {
		if response := s.get("ada"); response.Header.Get("X-Decided-By") != "local" {
			t.Fatalf("without an answer of the Redis: %d, decided by %q", response.StatusCode,
				response.Header.Get("X-Decided-By"))
		}
	}
	s.server.Resume()
	for by := ""; by != "store"; by = s.get("bob").Header.Get("X-Decided-By") {
		if t.Context().Err() != nil {
			t.Fatal("the Redis is back, and does not decide")
		}
		time.Sleep(time.Millisecond)
	}
	if !s.logged("breaker closed") {
		t.Error("the log does not say that the store is back")
	}
}

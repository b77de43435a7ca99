package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
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
	store, err := redisstore.Open(redis.Options{Addr: s.server.Addr})
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

// Only the first callers wait for a Redis that hangs. After that the process decides, without a wait. When the
// Redis is back, it decides again.
func TestAHangingRedisIsSurvived(t *testing.T) {
	s := start(t)
	if by := s.get("ada").Header.Get("X-Decided-By"); by != "store" {
		t.Fatalf("decided by %q", by)
	}
	s.server.Pause()
	t.Cleanup(s.server.Resume)
	for !s.logged("breaker open") {
		if response := s.get("ada"); response.Header.Get("X-Decided-By") != "local" {
			t.Fatalf("without an answer of the Redis: %d, decided by %q", response.StatusCode, response.Header.Get("X-Decided-By"))
		}
	}
	asked := s.asked.Load()
	var times []time.Duration
	denied := 0
	for n := range 5000 {
		begin := time.Now()
		response := s.get(fmt.Sprint("user ", n%1000))
		times = append(times, time.Since(begin))
		if response.StatusCode == http.StatusTooManyRequests {
			denied++
		}
		if by := response.Header.Get("X-Decided-By"); by != "local" {
			t.Fatalf("request %d: %d, decided by %q", n, response.StatusCode, by)
		}
	}
	if now := s.asked.Load(); now != asked {
		t.Errorf("%d callers waited for the store though the breaker was open", now-asked)
	}
	if denied == 0 {
		t.Error("nobody was denied; the share of ten requests is two")
	}
	slices.Sort(times)
	t.Logf("while the Redis hangs, p50 %s, p99 %s, max %s", times[2499], times[4949], times[4999])
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

// The same for a Redis that is gone: a refused connection is noticed at once.
func TestADeadRedisIsSurvived(t *testing.T) {
	s := start(t)
	s.get("ada")
	s.server.Kill()
	for n := range 20 {
		if response := s.get(fmt.Sprint(n)); response.StatusCode != http.StatusOK || response.Header.Get("X-Decided-By") != "local" {
			t.Errorf("request %d: %d, decided by %q", n, response.StatusCode, response.Header.Get("X-Decided-By"))
		}
	}
	if takes := s.asked.Load(); takes > 6 || !s.logged("breaker open") {
		t.Errorf("%d callers asked a store that is gone", takes)
	}
}

// The load of -load reaches the service and is reported.
func TestTheLoad(t *testing.T) {
	s := start(t)
	s.tenSeconds.Count = 1_000_000
	listening := httptest.NewServer(s)
	t.Cleanup(listening.Close)
	told := make(chan string, 100)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	loading(ctx, strings.TrimPrefix(listening.URL, "http://"), 200, func(format string, args ...any) {
		told <- fmt.Sprintf(format, args...)
	})
	text := <-told
	for text == "no answers" { // in a second of a busy machine
		text = <-told
	}
	if !strings.Contains(text, "answers, p50") || !strings.Contains(text, "not 200: 0") {
		t.Errorf("told %q", text)
	}
}

package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/pkg/limiter/redisstore"
)

func TestAUserIsLimitedAndOthersAreNot(t *testing.T) {
	server := redistest.Start(t)
	store, err := redisstore.New(redisstore.NewClient(redis.Options{Addr: server.Addr}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	var log strings.Builder
	handler := limited(store, func(format string, args ...any) { fmt.Fprintf(&log, format+"\n", args...) },
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {}))
	get := func(user string) *http.Response {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("X-User", user)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		return w.Result()
	}
	denied := 0
	for range 40 { // faster than one a second
		if response := get("ada"); response.StatusCode == http.StatusTooManyRequests {
			denied++
			if response.Header.Get("Retry-After") != "1" {
				t.Errorf("Retry-After is %q", response.Header.Get("Retry-After"))
			}
		}
	}
	if denied == 0 {
		t.Error("nobody was denied")
	}
	if got := get("bob").StatusCode; got != http.StatusOK {
		t.Errorf("somebody else gets %d", got)
	}
	if got := get("{").StatusCode; got != http.StatusBadRequest {
		t.Errorf("a name that no key can have gets %d", got)
	}
	server.Kill()
	get("ada") // may find the connection dead
	if got := get("ada").StatusCode; got != http.StatusOK || !strings.Contains(log.String(), "let through without a limit") {
		t.Errorf("without Redis: %d, and the log says %q", got, log.String())
	}
}

package policyfile_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// What all policies share counts once.
func TestStatsOfARuntime(t *testing.T) {
	backend := &sickStore{Store: memorystore.New()}
	policies := newWritten(t, `
breaker: {failures: 1, pause: 1h, max_pause: 1h}
policies:
  one: {limits: [{name: day, limit: 1/24h, by: [user]}], on_error: local}
  two: {limits: [{name: day, limit: 1/24h, by: [user]}], on_error: local}
`).run(backend, limiter.DenialMemory{MaxStale: time.Hour})
	ask := func(user string, times int) {
		t.Helper()
		for range times {
			for _, name := range []string{"one", "two"} {
				if _, err := policies.Take(t.Context(), name, policy.Attributes{"user": user}, 1); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	want := func(when, want string) {
		t.Helper()
		if got := fmt.Sprintf("%+v", policies.Stats()); got != want {
			t.Errorf("%s: %s, want %s", when, got, want)
		}
	}
	ask("a", 2)
	want("denied", "{Breakers:map[:closed]}")
	backend.err = store.ErrUnavailable
	ask("b", 1)
	want("away", "{Breakers:map[:open]}")
}

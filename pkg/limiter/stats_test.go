package limiter_test

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

func wantBreakers(t *testing.T, l *limiter.Limiter, want map[string]limiter.BreakerState) {
	t.Helper()
	if got := l.Stats().Breakers; !maps.Equal(got, want) {
		t.Errorf("the breakers are %v, want %v", got, want)
	}
}

// inShards is a store with a shard for each first letter of a subject. The shard a is away.
type inShards struct{ limiter.Store }

func (s inShards) Shard(key store.Key) string { return key.Subject[:1] }

func (s inShards) Decide(ctx context.Context, op store.Op, reqs []store.Request, decisions []store.Decision) error {
	if s.Shard(reqs[0].Key) == "a" {
		return &store.ShardError{Shard: "a", Err: store.ErrUnavailable}
	}
	return s.Store.Decide(ctx, op, reqs, decisions)
}

// Each shard has its state, also behind a wrapper of the application. An observer of a breaker can call Stats.
func TestStatsOfShards(t *testing.T) {
	var l *limiter.Limiter
	var told []limiter.BreakerState
	l = newLimiter(t, inShards{memorystore.New()}, limiter.Breaker{Failures: 1, Pause: time.Hour}, limiter.FailClosed(),
		limiter.Around(func(s limiter.Store) limiter.Store { return plain{s} }),
		limiter.Observer{OnBreaker: func(c limiter.BreakerChange) {
			told = append(told, c.To, l.Stats().Breakers[c.Shard])
		}})
	for _, subject := range []string{"a", "b"} {
		if _, err := l.Take(t.Context(), minute.For(subject)); err != nil {
			t.Fatal(err)
		}
	}
	wantBreakers(t, l, map[string]limiter.BreakerState{"a": limiter.BreakerOpen, "b": limiter.BreakerClosed})
	if want := []limiter.BreakerState{limiter.BreakerOpen, limiter.BreakerOpen}; !slices.Equal(told, want) {
		t.Errorf("told of %v, want %v", told, want)
	}
}

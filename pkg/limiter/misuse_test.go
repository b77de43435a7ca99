package limiter_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/redisstore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// What is nil, or what nobody can mean, is an error of one line that says so.
func TestNilAndAbsurdArguments(t *testing.T) {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	defer client.Close()
	take := func(s limiter.Store, options ...limiter.Option) error {
		l, err := limiter.New(s, options...)
		if err != nil {
			return err
		}
		_, err = l.Take(t.Context(), minute.For("u"))
		return errors.Join(err, l.Close())
	}
	option := func(o limiter.Option) error { return take(memorystore.New(), o) }
	memory := func(o memorystore.Option) error { return take(memorystore.New(o)) }
	onRedis := func(client redis.UniversalClient, options ...redisstore.Option) error {
		_, err := redisstore.New(client, options...)
		if _, owning := redisstore.Own(client, options...); fmt.Sprint(owning) != fmt.Sprint(err) {
			return fmt.Errorf("%w and %w", err, owning)
		}
		return err
	}
	panics := func(f func()) (err error) { // which returns no error
		defer func() { err = fmt.Errorf("%w: %v", limiter.ErrInvalid, recover()) }()
		f()
		return nil
	}
	var none *memorystore.Store
	for text, err := range map[string]error{
		"the store is nil":                         take(none),
		"the memory store is not made by New":      take(&memorystore.Store{}),
		"the Redis store is not made by":           take(&redisstore.Store{}),
		"the store of FailLocalIn is nil":          option(limiter.FailLocalIn(none, 1)),
		"store of FailLocalIn is nil":              option(limiter.FailLocalIn(nil, 1)),
		"option Leases has the time 1ns":           option(limiter.Leases{Term: 1}),
		"the clock of the memory store is nil":     memory(memorystore.WithClock(nil)),
		`prefix "a{b" contains '{'`:                memory(memorystore.WithPrefix("a{b")),
		"option 1 of 1 of the memory store is nil": memory(nil),
		"needs a client":                           onRedis((*redis.ClusterClient)(nil)),
		"and not a *redis.Ring":                    onRedis(redis.NewRing(&redis.RingOptions{})),
		"option 1 of 1 of the Redis store is nil":  onRedis(client, nil),
		"the clock of the Redis store is nil":      onRedis(client, redisstore.WithClock(nil)),
		"the function of WithBatchObserver is nil": onRedis(client, redisstore.WithBatchObserver(nil)),
		"the budget 999.999µs is too short":        onRedis(client, redisstore.WithBudget(time.Millisecond-1)),
		`prefix "a{c" contains '{'`:                onRedis(client, redisstore.WithPrefix("a{c")),
		"WithBudget: store is nil":                 panics(func() { store.WithBudget(nil, 1) }),
		"Wrap: wrapper or inner is nil":            panics(func() { store.Wrap(memorystore.New(), nil) }),
		"Wrap: wrapper or":                         panics(func() { store.Wrap(nil, memorystore.New()) }),
	} {
		if !errors.Is(err, limiter.ErrInvalid) || !strings.Contains(err.Error(), text) ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("%v, want %q", err, text)
		}
	}
}

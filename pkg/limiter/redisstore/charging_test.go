package redisstore_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/pkg/limiter/redisstore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// A user without rights to the keys beside limits decides as ever, and is told what is missing
// when a token, denials or overrides need it. Nothing is charged then.
func TestWithoutTheRightToKeysBesideTheLimits(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	options := as(server, "~rl:*", "+@all")
	backend := newStore(t, redis.NewClient(&options))
	defer backend.Close()
	req := store.Request{Key: store.Key{Subject: "a", Name: "n"}, Limit: yearly(5), Cost: 1}
	decideOne(t, backend, store.Take, req)
	decideOne(t, backend, store.Charge, req)
	req.Token = "order-1"
	for _, op := range []store.Op{store.Take, store.Charge, store.Settle, store.TakeUpTo, store.Peek} {
		err := backend.Decide(ctx, op, []store.Request{req}, make([]store.Decision, 1))
		if !errors.Is(err, store.ErrRefused) || !strings.Contains(err.Error(), "rl!") {
			t.Errorf("%s with a token: %v", op, err)
		}
	}
	_, _, listing := backend.Overrides(ctx)
	for what, err := range map[string]error{"denials": backend.AddDenials(ctx, oneDenial), "overrides": listing} {
		if !errors.Is(err, store.ErrRefused) || !strings.Contains(err.Error(), "rl!") {
			t.Errorf("%s: %v", what, err)
		}
	}
	req.Token = ""
	if d := decideOne(t, backend, store.Peek, req); d.Used != 2 {
		t.Errorf("after refusals %d are used", d.Used)
	}
}

// What somebody else keeps under a token's key stays as it is.
func TestTokenKeyThatIsForeign(t *testing.T) {
	t.Parallel()
	client := socketClient(t, redistest.Start(t))
	backend := newStore(t, client)
	req := store.Request{Key: store.Key{Subject: "a", Name: "n"}, Limit: yearly(5), Cost: 1, Token: "t",
		TokenTTL: time.Minute}
	decideOne(t, backend, store.Take, req) // which makes a key that ends by itself
	if ttl := client.PTTL(ctx, "rl!token:t").Val(); ttl <= 0 || ttl > time.Minute+time.Millisecond {
		t.Errorf("the token expires after %v", ttl)
	}
	client.Del(ctx, "rl:{a}:n")
	for _, plant := range []func(){
		func() { client.Set(ctx, "rl!token:t", "hello", 0) },
		func() { client.Set(ctx, "rl!token:t", "RT\x02"+strings.Repeat("x", 60), 0) },
		func() { client.LPush(ctx, "rl!token:t", "hello") },
	} {
		client.Del(ctx, "rl!token:t")
		plant()
		before := client.Dump(ctx, "rl!token:t").Val()
		err := backend.Decide(ctx, store.Take, []store.Request{req}, make([]store.Decision, 1))
		if !errors.Is(err, store.ErrForeign) || !strings.Contains(err.Error(), "rl!token:t") {
			t.Errorf("a foreign token: %v", err)
		}
		if client.Dump(ctx, "rl!token:t").Val() != before || client.Exists(ctx, "rl:{a}:n").Val() != 0 {
			t.Errorf("it was changed, or something was charged")
		}
	}
}

func newStore(t testing.TB, client redis.UniversalClient, options ...redisstore.Option) *redisstore.Store {
	t.Helper()
	backend, err := redisstore.Own(client, options...)
	must(t, err)
	return backend
}

func decideOne(t *testing.T, backend store.Store, op store.Op, req store.Request) store.Decision {
	t.Helper()
	return decided(t, backend, op, []store.Request{req})[0]
}

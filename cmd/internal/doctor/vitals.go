package doctor

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/panics"
	"github.com/limitctl/limitctl/pkg/limiter/redisstore"
)

// Vitals is what a master says of itself that is worth watching.
type Vitals struct {
	Address      string // empty if it is the only one
	Version      string // with the product: "Redis 7.0.15"
	Role         string
	OpsPerSecond int64
	UsedMemory   int64
	MaxMemory    int64 // 0: no bound
	// RoundTrip is how long it took to answer at all.
	RoundTrip time.Duration
	// Problem is why there is nothing of the above but Address and RoundTrip.
	Problem error
}

// Watch asks every master of client, all at once. A master that does not answer, or
// does not tell, is among the results with that as its Problem.
func Watch(ctx context.Context, client redis.UniversalClient) []Vitals {
	cluster, is := client.(*redis.ClusterClient)
	if !is {
		return []Vitals{watchServer(ctx, client)}
	}
	var mu sync.Mutex
	var all []Vitals
	err := cluster.ForEachMaster(ctx, func(ctx context.Context, master *redis.Client) (err error) {
		defer panics.Catch(&err) // it is the client's goroutine
		v := watchServer(ctx, master)
		v.Address = redacted(client, master.Options().Addr)
		mu.Lock()
		defer mu.Unlock()
		all = append(all, v)
		return nil
	})
	if err != nil {
		return []Vitals{{Problem: explained(client, err)}}
	}
	slices.SortFunc(all, func(a, b Vitals) int { return strings.Compare(a.Address, b.Address) })
	return all
}

func watchServer(ctx context.Context, client redis.UniversalClient) Vitals {
	begun := time.Now()
	err := client.Ping(ctx).Err()
	v := Vitals{RoundTrip: time.Since(begun)}
	if err != nil && !lacksRight(err) { // a refusal takes as long
		v.Problem = explained(client, err)
		return v
	}
	text, err := client.Info(ctx).Result()
	switch {
	case lacksRight(err):
		v.Problem = errors.New("no right to INFO")
		return v
	case err != nil:
		v.Problem = explained(client, err)
		return v
	}
	store, err := redisstore.New(client, redisstore.WithoutHooks())
	if err != nil {
		v.Problem = err
		return v
	}
	fields := redactedInfo(text, store)
	version := fields.version()
	v.Version, v.Role = version.product+" "+version.text, fields["role"]
	v.OpsPerSecond, v.UsedMemory, v.MaxMemory = fields.number("instantaneous_ops_per_sec"), fields.number("used_memory"), fields.number("maxmemory")
	return v
}

// redacted is a text of a server without the password of its client.
func redacted(client redis.UniversalClient, text string) string {
	store, err := redisstore.New(client, redisstore.WithoutHooks())
	if err != nil {
		return ""
	}
	return store.Redact(text)
}

// explained is an error as the limiter's.
func explained(client redis.UniversalClient, err error) error {
	store, newErr := redisstore.New(client, redisstore.WithoutHooks())
	if newErr != nil {
		return err
	}
	return store.Explain(err)
}

package doctor

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	redisserver "github.com/limitctl/limitctl/internal/redis"
)

// Vitals are figures of a master that are worth watching.
type Vitals struct {
	Address      string // empty for the only one
	Version      string // with the product: "Redis 7.0.15"
	Role         string
	OpsPerSecond int64
	UsedMemory   int64
	MaxMemory    int64 // 0: no bound
	// RoundTrip is the time of the answer.
	RoundTrip time.Duration
	// Problem says why only Address and RoundTrip are known.
	Problem error
}

// Watch asks all masters of client at once. For a master that does not answer, or does not tell, the result has the
// Problem.
func Watch(ctx context.Context, client redis.UniversalClient) []Vitals {
	servers := redisserver.New(client, "")
	var mu sync.Mutex
	var all []Vitals
	err := servers.EachMaster(ctx, func(ctx context.Context, master *redis.Client) error {
		v := watchServer(ctx, master)
		if servers.IsCluster() {
			v.Address = servers.Redact(master.Options().Addr)
		}
		mu.Lock()
		defer mu.Unlock()
		all = append(all, v)
		return nil
	})
	if err != nil {
		return []Vitals{{Problem: servers.Explain(err)}}
	}
	slices.SortFunc(all, func(a, b Vitals) int { return strings.Compare(a.Address, b.Address) })
	return all
}

// NodeOf returns a function that names the master of a key with a hash tag; nil without a Cluster. The name is empty
// while no master is known.
func NodeOf(client redis.UniversalClient) func(ctx context.Context, tag string) string {
	servers := redisserver.New(client, "")
	if !servers.IsCluster() {
		return nil
	}
	return func(ctx context.Context, tag string) string {
		server, err := servers.ServerOf(ctx, "{"+tag+"}")
		if master, is := server.(*redis.Client); err == nil && is {
			return servers.Redact(master.Options().Addr)
		}
		return ""
	}
}

func watchServer(ctx context.Context, client *redis.Client) Vitals {
	server := redisserver.New(client, "")
	begun := time.Now()
	err := client.Ping(ctx).Err()
	v := Vitals{RoundTrip: time.Since(begun)}
	if err != nil && !redisserver.LacksRight(err) { // a refusal takes as long
		v.Problem = server.Explain(err)
		return v
	}
	info, err := server.Info(ctx, client)
	switch {
	case redisserver.LacksRight(err):
		v.Problem = errors.New("no right to INFO")
		return v
	case err != nil:
		v.Problem = server.Explain(err)
		return v
	}
	version := info.Version()
	v.Version, v.Role = version.Product+" "+version.Text, info["role"]
	v.OpsPerSecond, v.UsedMemory, v.MaxMemory = info.Int("instantaneous_ops_per_sec"), info.Int("used_memory"), info.Int("maxmemory")
	return v
}

package live

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	redisserver "github.com/limitctl/limitctl/internal/redis"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// AskServers asks all masters of client at once. message writes why one does not answer, or does not tell. An error is why
// none of them can be asked.
func AskServers(ctx context.Context, client redis.UniversalClient, message func(error) string) (all []Server, err error) {
	servers := redisserver.New(client, "")
	var mu sync.Mutex
	var problems []error
	answers := false
	add := func(name string, s Server, problem error) {
		mu.Lock()
		defer mu.Unlock()
		s.Name = name
		if problem != nil {
			problems, s.Problem = append(problems, problem), message(problem)
		}
		answers = answers || !store.IsAway(problem) && !errors.Is(problem, store.ErrRefused)
		all = append(all, s)
	}
	err = servers.EachMaster(ctx, func(ctx context.Context, master *redis.Client) error {
		name := ""
		if servers.IsCluster() {
			name = servers.Redact(master.Options().Addr)
		}
		s, problem := askServer(ctx, master)
		add(name, s, problem)
		return nil
	})
	if err != nil {
		all, problems, answers = nil, nil, false
		add("", Server{}, servers.Explain(err))
	}
	slices.SortFunc(all, func(a, b Server) int { return strings.Compare(a.Name, b.Name) })
	if answers {
		return all, nil
	}
	return all, errors.Join(problems...)
}

// askServer asks a master. After an error only the time of the answer is known.
func askServer(ctx context.Context, client *redis.Client) (s Server, err error) {
	server := redisserver.New(client, "")
	begun := time.Now()
	err = client.Ping(ctx).Err()
	s.RoundTrip = time.Since(begun)
	if err != nil && !redisserver.LacksRight(err) { // a refusal takes as long
		return s, server.Explain(err)
	}
	info, err := server.Info(client.Info(ctx))
	switch {
	case redisserver.LacksRight(err):
		return s, errors.New("no right to INFO")
	case err != nil:
		return s, server.Explain(err)
	}
	version := info.Version()
	s.Version, s.Role = version.Product+" "+version.Text, info["role"]
	s.OpsPerSecond, s.UsedMemory, s.MaxMemory = info.Int("instantaneous_ops_per_sec"), info.Int("used_memory"), info.Int("maxmemory")
	return s, nil
}

// NodeOf returns a function that names the master of a key with a hash tag; nil without a Cluster. The name is empty while no
// master is known.
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

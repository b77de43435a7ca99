package connect

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/redisserver"
)

// Runs returns the runs of the masters behind a client of [OpenWithClient]: of each the id
// that the server has until it is started again, and the number of the database. A server that
// does not say is left out. A nil client has none.
func Runs(ctx context.Context, client redis.UniversalClient) []string {
	if client == nil {
		return nil
	}
	database := 0
	if single, is := client.(*redis.Client); is {
		database = single.Options().DB
	}
	var mu sync.Mutex
	var runs []string
	servers := redisserver.New(client, "")
	servers.EachMaster(ctx, func(ctx context.Context, master *redis.Client) error {
		info, err := servers.Info(ctx, master, "server")
		if id := info["run_id"]; err == nil && id != "" {
			mu.Lock()
			defer mu.Unlock()
			runs = append(runs, fmt.Sprintf("%s/%d", id, database))
		}
		return nil
	})
	slices.Sort(runs)
	return runs
}

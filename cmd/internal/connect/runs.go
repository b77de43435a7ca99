package connect

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/redisserver"
)

// Runs returns an identifier for each master behind a client of [OpenWithClient]: its run id, which lasts until its
// next start, and the number of the database. It leaves out servers that do not tell. A nil client has none.
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

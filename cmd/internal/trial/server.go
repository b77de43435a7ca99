package trial

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/cmd/internal/connect"
	"github.com/limitctl/limitctl/internal/redisserver"
)

// Embedded is what a report calls the server of a store that needs none.
const Embedded = "embedded in limitctl"

// serverOf returns the kind and the version of a server, such as "Redis 7.0.15", and
// empty if it does not tell, as for lack of a right.
func serverOf(ctx context.Context, client redis.UniversalClient) string {
	if client == nil {
		return Embedded
	}
	text, err := client.Info(ctx, "server").Result()
	if err != nil {
		return ""
	}
	info := redisserver.ParseInfo(text)
	server := ""
	for _, kind := range []struct{ field, name string }{
		{"valkey_version", "Valkey"}, {"dragonfly_version", "Dragonfly"}, {"redis_version", "Redis"},
	} {
		if version := info[kind.field]; version != "" {
			server = kind.name + " " + version
			break
		}
	}
	if server != "" && connect.IsCluster(client) {
		server += ", Cluster"
	}
	return server
}

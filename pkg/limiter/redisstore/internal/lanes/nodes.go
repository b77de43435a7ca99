package lanes

import (
	"context"

	"github.com/redis/go-redis/v9"

	redisserver "github.com/limitctl/limitctl/internal/redis"
)

// WatchNodes makes known which calls were sent to a node of a Cluster. Its client also reads
// the arguments of a call to find the node, and may fail before it has one. Call it before
// the client is used, because it sees only nodes that are new.
func WatchNodes(client redis.UniversalClient) {
	if cluster, ok := client.(*redis.ClusterClient); ok {
		cluster.OnNewNode(func(node *redis.Client) { node.AddHook(nodeHook{}) })
	}
}

// nodeHook is a [redis.Hook] of the nodes of a Cluster.
type nodeHook struct{ redisserver.PassHook }

// ProcessHook implements [redis.Hook]. What comes by here goes to the node, or is
// how the client learns what nodes there are.
func (nodeHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		notYet(cmd)
		err := next(ctx, cmd)
		if err != nil && cmd.FullName() == "cluster slots" {
			return &redisserver.DiscoveryError{Err: err}
		}
		return err
	}
}

// ProcessPipelineHook implements [redis.Hook].
func (nodeHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		notYet(cmds...)
		return next(ctx, cmds)
	}
}

// notYet takes back that calls were sent. Another node they were sent to before
// has answered that they are not its own.
func notYet(cmds ...redis.Cmder) {
	for _, cmd := range cmds {
		if c, ok := cmd.(*call); ok {
			c.state.CompareAndSwap(sent, unsent)
		}
	}
}

package redisserver

import (
	"context"
	"errors"
	"net"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/panics"
)

// Guard bounds the harm that broken or hostile servers can do to client. If an answer is not Redis' protocol, or
// announces more than 22 MB for one exchange, the connection ends before memory is allocated for it. A panic of the
// client becomes an error of the command.
//
// Call it before the first use of the client: it does not cover existing connections, nor nodes of a Cluster or a
// Ring that the client already knows. It also does not cover panics of a subscription, nor the Sentinels of a
// client of [redis.NewFailoverClient], for which that has its own clients.
func Guard(client redis.UniversalClient) {
	switch c := client.(type) {
	case *redis.ClusterClient:
		c.AddHook(guard{}) // for panics before a node is reached
		c.OnNewNode(func(node *redis.Client) { node.AddHook(guard{}) })
	case *redis.Ring:
		c.AddHook(guard{})
		c.OnNewNode(func(node *redis.Client) { node.AddHook(guard{}) })
	case *redis.Client:
		c.AddHook(guard{})
	}
}

// guard is a [redis.Hook] for new connections.
type guard struct{}

// DialHook implements [redis.Hook].
func (guard) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := next(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return guardConn(conn), nil
	}
}

// ProcessHook implements [redis.Hook].
func (guard) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) (err error) {
		defer func() {
			if err != nil && isPanic(err) {
				cmd.SetErr(err)
			}
		}()
		defer panics.Catch(&err)
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook implements [redis.Hook].
func (guard) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) (err error) {
		defer func() {
			if err != nil && isPanic(err) {
				for _, cmd := range cmds {
					cmd.SetErr(err)
				}
			}
		}()
		defer panics.Catch(&err)
		return next(ctx, cmds)
	}
}

func isPanic(err error) bool {
	var panicked *panics.Error
	return errors.As(err, &panicked)
}

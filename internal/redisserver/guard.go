package redisserver

import (
	"context"
	"errors"
	"net"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/panics"
	"github.com/limitctl/limitctl/internal/respguard"
)

// Guard bounds what the servers of client can cost who asks them, whether they are broken
// or hostile. An answer that is not Redis' protocol, or that announces more than 22 MB for
// all that was asked in one go, ends its connection before there is room made for it. A
// panic of the client becomes the error of what was asked.
//
// Call it before anything is asked of the client: it does not cover connections that exist
// already, nor the nodes of a Cluster or a Ring that the client knows already. It does not
// cover panics of a subscription either, nor the Sentinels of a client of
// [redis.NewFailoverClient], which has clients of its own for them.
func Guard(client redis.UniversalClient) {
	switch c := client.(type) {
	case *redis.ClusterClient:
		c.AddHook(guard{}) // for panics on the way to a node
		c.OnNewNode(func(node *redis.Client) { node.AddHook(guard{}) })
	case *redis.Ring:
		c.AddHook(guard{})
		c.OnNewNode(func(node *redis.Client) { node.AddHook(guard{}) })
	case *redis.Client:
		c.AddHook(guard{})
	}
}

// guard is a [redis.Hook] of what connects to servers.
type guard struct{}

// DialHook implements [redis.Hook].
func (guard) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := next(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return respguard.Guard(conn), nil
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

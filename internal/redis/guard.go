package redisserver

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/panics"
	"github.com/limitctl/limitctl/internal/redact"
)

// Guard bounds the harm that broken or hostile servers can do to the client. If an answer is not Redis' protocol, or
// announces more than 22 MB for one exchange, the connection ends before memory is allocated for it, and so it does
// if a script call, or the commands before the first one, get no answer within budget; 0 leaves that to the client. A
// panic of the client becomes an error of the command. Errors never contain what the client's provider gives it for a
// login.
//
// Call it before the first use of the client: it does not cover existing connections, nor nodes of a Cluster or a
// Ring that the client already knows. It also does not cover panics of a subscription.
func (s *Servers) Guard(budget time.Duration) {
	hook := guard{budget: budget, secrets: s.secrets}
	s.client.AddHook(hook)
	switch c := s.client.(type) {
	case *redis.ClusterClient: // its own hook is for panics before a node is reached
		c.OnNewNode(func(node *redis.Client) { node.AddHook(hook) })
	case *redis.Ring:
		c.OnNewNode(func(node *redis.Client) { node.AddHook(hook) })
	}
}

// guard is a [redis.Hook] for new connections.
type guard struct {
	budget  time.Duration
	secrets *redact.Secrets
}

// DialHook implements [redis.Hook].
func (g guard) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := next(ctx, network, address)
		if err != nil {
			return nil, dialError(err)
		}
		return bound(conn, g.budget), nil
	}
}

// ProcessHook implements [redis.Hook].
func (g guard) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) (err error) {
		defer func() {
			if isPanic(err) {
				cmd.SetErr(err)
			}
		}()
		defer panics.Catch(&err)
		g.learn(cmd)
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook implements [redis.Hook].
func (g guard) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) (err error) {
		defer func() {
			if isPanic(err) {
				for _, cmd := range cmds {
					cmd.SetErr(err)
				}
			}
		}()
		defer panics.Catch(&err)
		for _, cmd := range cmds {
			g.learn(cmd)
		}
		return next(ctx, cmds)
	}
}

// learn records the password of AUTH [user] password and of HELLO version AUTH user password.
func (g guard) learn(cmd redis.Cmder) {
	name := cmd.Name()
	if name != "hello" && name != "auth" {
		return // do not read its arguments: a take would then count as sent
	}
	words := cmd.Args()
	at := len(words) - 1
	if name == "hello" {
		at = 4
	}
	if at < len(words) {
		if password, is := words[at].(string); is {
			g.secrets.Learn(password)
		}
	}
}

func isPanic(err error) bool {
	var panicked *panics.Error
	return err != nil && errors.As(err, &panicked)
}

// PassHook is a [redis.Hook] that changes nothing. Hooks embed it for what they leave as it is.
type PassHook struct{}

// DialHook implements [redis.Hook].
func (PassHook) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements [redis.Hook].
func (PassHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

// ProcessPipelineHook implements [redis.Hook].
func (PassHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

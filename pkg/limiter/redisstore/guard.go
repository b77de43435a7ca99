package redisstore

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/panics"
	"github.com/limitctl/limitctl/internal/respguard"
)

// Guard bounds what the servers of client can cost who asks them, whether they are
// broken or hostile. An answer that is not Redis' protocol, or that announces more than
// 22 MB for all that was asked in one go, ends its connection before there is room made for it; and
// a panic of the client's becomes the error of what was asked.
//
// [New] does it with its client, and Guard is for clients beside a store. It is for
// before anything is asked of the client: connections that there are already stay as
// they are, and so do nodes of a Cluster or a Ring. Not covered are a subscription's
// panics, and the Sentinels of a client of [redis.NewFailoverClient], which has
// clients of its own for them.
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

// garbled are the beginnings of what go-redis says of answers that are sound, and of
// another kind than what was asked for.
var garbled = []string{"redis: can't parse", "redis: got ", "redis: invalid ", "redis: unexpected ", "redis: RESP3 map key",
	"redis: the length of the array", "got ", "strconv."}

// answerError says what is wrong with an answer.
type answerError struct{ text string }

func (e *answerError) Error() string { return e.text }

// errAnswer is an answer that no server gives to what was asked, as a proxy might.
var errAnswer = &answerError{"its answer is not one that Redis gives to this"}

// WrongAnswer returns what is wrong with an answer, if err is about one that no server
// gives, or about a bug that it met; nil of any other error.
func WrongAnswer(err error) error {
	var wrong *respguard.Error
	var answer *answerError
	var panicked *panics.Error
	switch {
	case errors.As(err, &wrong):
		return wrong
	case errors.As(err, &answer):
		return answer
	case errors.As(err, &panicked):
		return panicked
	case errors.Is(err, redis.Nil):
		return errAnswer
	}
	for ; err != nil; err = errors.Unwrap(err) {
		if _, is := err.(net.Error); is {
			return nil // it is about the way to the server
		}
		text := err.Error()
		if slices.ContainsFunc(garbled, func(beginning string) bool { return strings.HasPrefix(text, beginning) }) {
			return errAnswer
		}
	}
	return nil
}

// refuse is the error about an answer that no script of the store's gives.
func (s *Store) refuse(verb string, changes bool) error {
	return s.translate(sentError{errAnswer}, verb, changes, nil)
}

package lanes

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	redisserver "github.com/limitctl/limitctl/internal/redis"
	"github.com/limitctl/limitctl/lua"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// deciding returns the shortest script that usually decides reqs. It may leave that to [lua.DecideAny].
func deciding(op store.Op, reqs []store.Request) *lua.Script {
	kind := reqs[0].Limit.Kind()
	switch {
	case len(reqs) == 1 && decidesShort(op, reqs):
		return lua.Of(kind).One
	case len(reqs) == 1:
		return lua.Of(kind).Any
	case !slices.ContainsFunc(reqs, func(r store.Request) bool { return !r.Limit.Kind().DecidesShort() }):
		return lua.DecideNumbers
	}
	return lua.DecideAny
}

// decidesShort reports whether reqs are what the short scripts decide: a take or peek whose states are all two numbers.
func decidesShort(op store.Op, reqs []store.Request) bool {
	return (op == store.Take || op == store.Peek) && reqs[0].Token == "" &&
		!slices.ContainsFunc(reqs, func(r store.Request) bool { return r.Shadow || !r.Limit.Kind().DecidesShort() })
}

// Run calls the script. A call that changes something is sent at most once.
func (s *Sender) Run(ctx context.Context, changes bool, script *lua.Script, keys []string, arguments []any) (
	*redis.Cmd, error) {
	words := append(make([]any, 2, 3+len(keys)+len(arguments)), len(keys))
	for i := range keys {
		words = append(words, keys[i])
	}
	return s.send(ctx, s.newCall(ctx, changes, script, keys[0], append(words, arguments...)))
}

// Array runs a script that answers with an array, of elements that come in groups
// of a size, with or without one before them.
func (s *Sender) Array(
	ctx context.Context, changes bool, script *lua.Script, storeKeys []string, arguments []any, size int,
) ([]any, error) {
	cmd, err := s.Run(ctx, changes, script, storeKeys, arguments)
	if err != nil {
		return nil, err
	}
	reply, err := cmd.Slice()
	if err != nil || len(reply)%size > 1 {
		return nil, MaybeSent(redisserver.ErrAnswer)
	}
	return reply, nil
}

// Text reads a text in an array. An element of another type, which our scripts do not send, is empty.
func Text(element any) string {
	s, _ := element.(string)
	return s
}

// Integer reads a number in an array. An element of another type, which our scripts do not send, is 0.
func Integer(element any) int64 {
	n, _ := element.(int64)
	return n
}

// ExpiryOf reads an instant in ms since the epoch, -1 being never.
func ExpiryOf(element any) time.Time {
	if ms := Integer(element); ms > 0 {
		return time.UnixMilli(ms)
	}
	return time.Time{}
}

// newCall returns a call of script by its name. It fills in the first two of its words.
func (s *Sender) newCall(ctx context.Context, changes bool, script *lua.Script, key string, words []any) *call {
	command(words, script, true, !changes && !s.noReadOnly.Load())
	return &call{Cmd: *redis.NewCmd(ctx, words...), once: changes, key: key, script: script}
}

// reworded returns c as the server can be asked that answered err: with the script's source if it does not know that,
// and without EVALSHA_RO if it is too old. These answers come before anything runs, so calling again cannot charge
// twice. It is nil if err is about anything else.
func (s *Sender) reworded(ctx context.Context, c *call, err error) *call {
	if err == nil || c == nil || c.script == nil {
		return nil
	}
	words := slices.Clone(c.Cmd.Args())
	name := words[0].(string)
	byName, readOnly := strings.HasPrefix(name, "evalsha"), strings.HasSuffix(name, "_ro")
	switch {
	case byName && redisserver.IsErrorReply(err, "NOSCRIPT"):
		byName = false
	case readOnly && redisserver.IsErrorReply(err, "ERR unknown command"):
		s.noReadOnly.Store(true)
		readOnly = false
	default:
		return nil
	}
	command(words, c.script, byName, readOnly)
	return &call{Cmd: *redis.NewCmd(ctx, words...), once: c.once, key: c.key, script: c.script}
}

// command fills in the first two words of a script call.
func command(words []any, script *lua.Script, byName, readOnly bool) {
	switch {
	case byName && readOnly:
		words[0], words[1] = "evalsha_ro", script.SHA()
	case byName:
		words[0], words[1] = "evalsha", script.SHA()
	case readOnly:
		words[0], words[1] = "eval_ro", script.Source()
	default:
		words[0], words[1] = "eval", script.Source()
	}
}

package keyspace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	redisserver "github.com/limitctl/limitctl/internal/redis"
	"github.com/limitctl/limitctl/pkg/limiter/layouts"
)

// reader reads values of any layout. It is for one batch of a scan.
type reader struct {
	*keys
	// texts: only strings are read, and so many bytes of each. Else it is all of a value, whatever its type.
	texts int
	// dumps: what is not a string is read as DUMP has it, too, and until when each is kept.
	dumps bool
	// sizes: the memory of each value is asked for.
	sizes bool
	// hashes: most values are likely not to be strings, so their types are asked for first.
	hashes bool
	server redis.Cmdable       // that has most of the keys
	stride *redisserver.Stride // of reading from server; nil if nobody divides by it
	values map[string]*heldValue
	// several: what is read may be less than was asked for, by errMuch, and bytes is how much it
	// is in memory.
	several bool
	bytes   int64
	// now is what the clock of server showed last.
	now time.Time
	// lose is called when a master cannot be reached; its values are marked. If lose is
	// nil or returns an error, reading ends.
	lose func(node *redis.Client, err error) error
	// isLost, if it is not nil, reports whether a master could not be reached before. It is not asked
	// again: one that hangs would be waited for at each batch.
	isLost func(node *redis.Client) bool
}

// mostHeld is about how many bytes of memory the values take that are held at once, strings that
// are read in one go aside.
const mostHeld = 4 * mostRead

// movesFollowed is how often a scan follows keys to another master before it gives up.
const movesFollowed = 10

// errMuch says that values of several limits are too much to be held at once.
var errMuch = errors.New("too much to be held at once")

// execute runs a pipeline. An error is one of all that was asked; what single commands answer
// is looked at by the caller.
func execute(ctx context.Context, pipe redis.Pipeliner) error {
	if _, err := pipe.Exec(ctx); err != nil && !redisserver.IsErrorReply(err, "") && !errors.Is(err, redis.Nil) {
		return err
	}
	return nil
}

// timed runs a pipeline about so many values as an exchange of the stride.
func (r *reader) timed(ctx context.Context, pipe redis.Pipeliner, values int) error {
	if r.stride == nil {
		return execute(ctx, pipe)
	}
	return r.stride.Exchange(ctx, values, func() error { return execute(ctx, pipe) })
}

// addNew reads the values of those store keys that are not known yet, each once. It reports whether there are any.
func (r *reader) addNew(ctx context.Context, storeKeys []string) (added bool, err error) {
	unread := make([]string, 0, len(storeKeys))
	for _, storeKey := range storeKeys {
		if r.values[storeKey] == nil {
			r.values[storeKey] = &heldValue{}
			unread = append(unread, storeKey)
		}
	}
	for some := range slices.Chunk(unread, 2*redisserver.KeysPerRead) {
		if err := r.add(ctx, some); err != nil {
			return false, err
		}
	}
	return len(unread) > 0, nil
}

// add reads the values of store keys.
func (r *reader) add(ctx context.Context, storeKeys []string) error {
	var here []*heldValue
	var elsewhere map[*redis.Client][]*heldValue
	for _, storeKey := range storeKeys {
		held := &heldValue{Value: layouts.Value{StoreKey: storeKey, Type: layouts.NoValue}}
		r.values[storeKey] = held
		if node, is := r.elsewhere(ctx, storeKey); is {
			if elsewhere == nil {
				elsewhere = map[*redis.Client][]*heldValue{}
			}
			elsewhere[node] = append(elsewhere[node], held)
			continue
		}
		here = append(here, held)
	}
	moved, err := r.readFrom(ctx, r.server, here)
	if err != nil {
		return err
	}
	for node, values := range elsewhere {
		if r.isLost != nil && r.isLost(node) {
			lose(values)
			continue
		}
		more, err := r.readFrom(ctx, node, values)
		if err != nil && ctx.Err() == nil && r.lose != nil {
			lose(values)
			err = r.lose(node, err)
		}
		if err != nil {
			return err
		}
		moved = append(moved, more...)
	}
	return r.follow(ctx, moved)
}

// lose marks values whose master could not be reached.
func lose(values []*heldValue) {
	for _, held := range values {
		held.lost = true
	}
}

// elsewhere returns the master that has a store key, if that is another one than the reader's.
func (r *reader) elsewhere(ctx context.Context, storeKey string) (*redis.Client, bool) {
	if !r.IsCluster() {
		return nil, false
	}
	server, err := r.Servers.ServerOf(ctx, storeKey)
	node, is := server.(*redis.Client)
	return node, err == nil && is && server != r.server
}

// follow reads values of store keys that went to another master, which the Cluster's client
// finds.
func (r *reader) follow(ctx context.Context, moved []*heldValue) error {
	for n := 0; len(moved) > 0; n++ {
		if n > movesFollowed || !r.IsCluster() {
			return fmt.Errorf("key %q keeps moving: %w", moved[0].StoreKey, redisserver.ErrNoMaster)
		}
		var err error
		if moved, err = r.readFrom(ctx, r.Client, moved); err != nil {
			return err
		}
	}
	return nil
}

// readFrom reads values from a server in one round trip if all are strings and not long, and
// else in three at most. It returns those that are on another one.
func (r *reader) readFrom(ctx context.Context, server redis.Cmdable, values []*heldValue) (moved []*heldValue, err error) {
	if len(values) == 0 {
		return nil, nil
	}
	others := values
	if !r.hashes {
		if others, moved, err = r.readStrings(ctx, server, values); err != nil || len(others) == 0 || r.texts > 0 {
			return moved, err
		}
	}
	more, err := r.readTyped(ctx, server, others)
	return append(moved, more...), err
}

// clock asks for the time of a server: for the Cluster's client, which asks any, that of the
// reader's server.
func (r *reader) clock(ctx context.Context, pipe redis.Pipeliner, server redis.Cmdable) func() (time.Time, error) {
	var asked *redis.TimeCmd
	if r.IsCluster() && server == redis.Cmdable(r.Client) {
		asked = r.server.Time(ctx)
	} else {
		asked = pipe.Time(ctx)
	}
	return func() (time.Time, error) {
		now, err := asked.Result()
		if err == nil && server == r.server {
			r.now = now
		}
		return now, err
	}
}

// lifetimeOf asks until when a key is kept.
func (r *reader) lifetimeOf(ctx context.Context, pipe redis.Pipeliner, storeKey string) lifetime {
	command, until := r.lifetimeCommand()
	return lifetime{askInt(ctx, pipe, command, storeKey), until}
}

// lifetimeCommand is the command for that, and whether it says an instant.
func (r *reader) lifetimeCommand() (command string, until bool) {
	if r.dumps && !r.NoExpireTime.Load() {
		return "pexpiretime", true
	}
	return "pttl", false
}

// askInt asks what a store key has, in the numbers that the server says it in.
func askInt(ctx context.Context, pipe redis.Pipeliner, command, storeKey string) *redis.IntCmd {
	cmd := redis.NewIntCmd(ctx, command, storeKey)
	_ = pipe.Process(ctx, cmd) // the error is that of the pipeline
	return cmd
}

// isTooOld reports whether the server lacks PEXPIRETIME, or the right to it. Then it is
// not asked for again.
func (r *reader) isTooOld(l lifetime) bool {
	if !l.until || !redisserver.IsErrorReply(l.cmd.Err(), "ERR unknown command") && !redisserver.LacksRight(l.cmd.Err()) {
		return false
	}
	r.NoExpireTime.Store(true)
	return true
}

// stringReply is what was asked of what may be a string.
type stringReply struct {
	text  *redis.StringCmd
	until lifetime
	size  *redis.IntCmd
}

// askStrings adds the commands about values to a pipeline. A scan asks about millions, so those of one pipeline share the memory of
// their words.
func (r *reader) askStrings(ctx context.Context, pipe redis.Pipeliner, values []*heldValue) []stringReply {
	const perKey = 3 // commands
	var first, last any = 0, cmp.Or(r.texts, firstText) - 1
	lifetimeWord, isInstant := r.lifetimeCommand()
	replies, cmds, words := make([]stringReply, len(values)), make([]redis.Cmder, 0, perKey*len(values)), make([]any, 0, 6*len(values))
	said := func(command ...any) []any {
		words = append(words, command...)
		return words[len(words)-len(command) : len(words) : len(words)]
	}
	for i, held := range values {
		var key any = held.StoreKey
		reply := &replies[i]
		reply.text = redis.NewStringCmd(ctx, said("getrange", key, first, last)...)
		reply.until = lifetime{redis.NewIntCmd(ctx, said(lifetimeWord, key)...), isInstant}
		cmds = append(cmds, reply.text, reply.until.cmd)
		if r.sizes {
			reply.size = redis.NewIntCmd(ctx, "memory", "usage", key)
			cmds = append(cmds, reply.size)
		}
	}
	_ = pipe.BatchProcess(ctx, cmds...) // the error is that of the pipeline
	return replies
}

// readStrings reads values as if they were strings. others are those that are not, or that may be
// longer than what was read though all is wanted.
func (r *reader) readStrings(ctx context.Context, server redis.Cmdable, values []*heldValue) (
	others, moved []*heldValue, err error,
) {
	pipe := server.Pipeline()
	clock := r.clock(ctx, pipe, server)
	replies := r.askStrings(ctx, pipe, values)
	if err := r.timed(ctx, pipe, len(values)); err != nil {
		return nil, nil, err
	}
	now, err := clock()
	if err != nil {
		return nil, nil, err
	}
	if r.isTooOld(replies[0].until) {
		return r.readStrings(ctx, server, values)
	}
	for i, held := range values {
		held.at = now
		reply := &replies[i]
		text, err := reply.text.Bytes()
		switch until := reply.until.cmd.Err(); {
		case redisserver.IsElsewhere(err) || redisserver.IsElsewhere(until) ||
			reply.size != nil && redisserver.IsElsewhere(reply.size.Err()):
			moved = append(moved, held)
		case redisserver.IsErrorReply(err, "WRONGTYPE") || len(text) == firstText && r.texts == 0:
			others = append(others, held)
			if held.bytes, err = sizeIn(reply.size); err != nil && r.texts > 0 {
				return nil, nil, err
			}
		case err != nil:
			return nil, nil, err
		case until != nil:
			return nil, nil, until
		case held.keep(reply.until):
			held.Type, held.Text, held.Length, held.read = layouts.StringValue, text, int64(len(text)), true
			if held.bytes, err = sizeIn(reply.size); err != nil {
				return nil, nil, err
			}
		}
	}
	return others, moved, nil
}

// sizeIn reads the memory of a value, 0 if it was not asked for or has gone meanwhile.
func sizeIn(cmd *redis.IntCmd) (int64, error) {
	if cmd == nil || errors.Is(cmd.Err(), redis.Nil) {
		return 0, nil
	}
	return cmd.Result()
}

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

// reader reads values of a batch of a scan.
type reader struct {
	*scan
	server redis.Cmdable // that has most of the keys
	stride *redisserver.Stride
	head   int // how much of a string is read at first, which is all of nearly every one
	// onlyText: only strings are read, and long ones in a second step, see readLarge. Else all is, whatever its type.
	onlyText           bool
	mostText, mostRead int64
	// now is what the clock of a server showed last, or ours.
	now time.Time
	// several: what is read may be less than was asked for, by errMuch, and bytes is how much it is in memory.
	several bool
	bytes   int64
}

// movesFollowed is how often a scan follows keys to another master before it gives up.
const movesFollowed = 10

func (sc *scan) reader(server redis.Cmdable) *reader {
	return &reader{scan: sc, server: server, now: time.Now(), stride: sc.stride(server), head: firstText,
		mostText: layouts.MostText, mostRead: mostRead}
}

// execute runs a pipeline about so many values. An error is one of all that was asked; what single commands answer
// is looked at by the caller.
func (r *reader) execute(ctx context.Context, pipe redis.Pipeliner, values int) error {
	return r.stride.Exchange(ctx, values, func() error {
		if _, err := pipe.Exec(ctx); err != nil && !redisserver.IsErrorReply(err, "") && !errors.Is(err, redis.Nil) {
			return err
		}
		return nil
	})
}

// read reads values, one for each store key. Those that the reader's server does not have are read like moved ones.
func (r *reader) read(ctx context.Context, values []held, storeKeys []string) error {
	here, elsewhere := make([]*held, 0, len(storeKeys)), []*held(nil)
	for i, storeKey := range storeKeys {
		values[i].StoreKey = storeKey
		if r.isElsewhere(ctx, storeKey) {
			elsewhere = append(elsewhere, &values[i])
		} else {
			here = append(here, &values[i])
		}
	}
	moved, err := r.readFrom(ctx, r.server, here)
	if err != nil {
		return err
	}
	return r.follow(append(moved, elsewhere...), func(moved []*held) ([]*held, error) {
		return r.readFrom(ctx, r.Client, moved)
	})
}

// follow reads values that went to another master, which the Cluster's client finds.
func (r *reader) follow(moved []*held, read func(moved []*held) (still []*held, err error)) (err error) {
	for n := 0; len(moved) > 0; n++ {
		if n > movesFollowed || !r.IsCluster() {
			return fmt.Errorf("key %q keeps moving: %w", moved[0].StoreKey, redisserver.ErrNoMaster)
		}
		if moved, err = read(moved); err != nil && !errors.Is(err, errMuch) {
			return r.Servers.Explain(err) // it is not about the reader's server
		} else if err != nil {
			return err
		}
	}
	return nil
}

// isElsewhere reports whether another master than the reader's has a store key.
func (r *reader) isElsewhere(ctx context.Context, storeKey string) bool {
	if !r.IsCluster() || r.onlyText { // what was scanned for was found here
		return false
	}
	server, err := r.Servers.ServerOf(ctx, storeKey)
	return err == nil && server != r.server
}

// readFrom reads values from a server in one round trip if all are strings and not long, and else in a few. It returns
// those that are on another one.
func (r *reader) readFrom(ctx context.Context, server redis.Cmdable, values []*held) (moved []*held, err error) {
	if len(values) == 0 {
		return nil, nil
	}
	if values, moved, err = r.readHeads(ctx, server, values); err != nil {
		return nil, err
	}
	there, elsewhere, err := r.types(ctx, server, values)
	moved = append(moved, elsewhere...)
	if err != nil || r.onlyText {
		return moved, err
	}
	if err = r.measure(ctx, server, there); err == nil {
		err = r.reserve(there)
	}
	for s := range spans(len(there), func(i int) int {
		return int(max(there[i].reads, min(there[i].size, mostKept)))
	}) {
		if err == nil {
			elsewhere, err = r.contents(ctx, server, there[s.first:s.end])
			moved = append(moved, elsewhere...)
		}
	}
	return moved, err
}

// readLarge reads strings of which the head was read, as many at a time as one exchange carries, and calls done with
// those.
func (r *reader) readLarge(ctx context.Context, values []*held, done func(first, end int) error) error {
	if len(values) == 0 {
		return nil
	}
	if err := r.measure(ctx, r.server, values); err != nil {
		return err
	}
	for s := range spans(len(values), func(i int) int { return int(values[i].reads) }) {
		moved, err := r.contents(ctx, r.server, values[s.first:s.end])
		if err == nil {
			err = r.follow(moved, func(moved []*held) ([]*held, error) { return r.contents(ctx, r.Client, moved) })
		}
		if err == nil {
			err = done(s.first, s.end)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// lifetimeCommand is the command for until when a key is kept, and whether it says an instant.
func (r *reader) lifetimeCommand() (command string, isInstant bool) {
	if r.query.Records && !r.NoExpireTime.Load() {
		return "pexpiretime", true
	}
	return "pttl", false
}

// isTooOld reports whether the server lacks PEXPIRETIME, or the right to it. Then it is not asked for again.
func (r *reader) isTooOld(isInstant bool, err error) bool {
	if !isInstant || !redisserver.IsErrorReply(err, "ERR unknown command") && !redisserver.LacksRight(err) {
		return false
	}
	r.NoExpireTime.Store(true)
	return true
}

// headReply is what was asked of what may be a string.
type headReply struct {
	text        *redis.StringCmd
	until, size *redis.IntCmd
}

// askHeads adds the commands about values to a pipeline. A scan asks about millions, so those of one pipeline share the
// memory of their words.
func (r *reader) askHeads(ctx context.Context, pipe redis.Pipeliner, values []*held) []headReply {
	var first, last any = 0, r.head - 1
	lifetime, _ := r.lifetimeCommand()
	replies, cmds, words := make([]headReply, len(values)), make([]redis.Cmder, 0, 3*len(values)),
		make([]any, 0, 6*len(values))
	said := func(command ...any) []any {
		words = append(words, command...)
		return words[len(words)-len(command) : len(words) : len(words)]
	}
	for i, value := range values {
		var key any = value.StoreKey
		reply := &replies[i]
		reply.text = redis.NewStringCmd(ctx, said("getrange", key, first, last)...)
		reply.until = redis.NewIntCmd(ctx, said(lifetime, key)...)
		cmds = append(cmds, reply.text, reply.until)
		if r.query.Bytes {
			reply.size = redis.NewIntCmd(ctx, "memory", "usage", key)
			cmds = append(cmds, reply.size)
		}
	}
	_ = pipe.BatchProcess(ctx, cmds...) // the error is that of the pipeline
	return replies
}

// readHeads reads values as if they were strings. others are those that are not, or that may be longer than what was
// read.
func (r *reader) readHeads(ctx context.Context, server redis.Cmdable, values []*held) (
	others, moved []*held, err error) {
	pipe := server.Pipeline()
	clock := pipe.Time(ctx)
	_, isInstant := r.lifetimeCommand()
	replies := r.askHeads(ctx, pipe, values)
	if err := r.execute(ctx, pipe, len(values)); err != nil {
		return nil, nil, err
	}
	now, err := clock.Result()
	if err != nil {
		return nil, nil, err
	}
	r.now = now
	if r.isTooOld(isInstant, replies[0].until.Err()) {
		return r.readHeads(ctx, server, values)
	}
	for i, value := range values {
		value.at = now
		reply := &replies[i]
		text, err := reply.text.Bytes()
		size, sizeErr := sizeIn(reply.size)
		value.bytes = size
		switch until := reply.until.Err(); {
		case redisserver.IsElsewhere(err) || redisserver.IsElsewhere(until) || redisserver.IsElsewhere(sizeErr):
			moved = append(moved, value)
		case redisserver.IsErrorReply(err, "WRONGTYPE"):
			others = append(others, value)
		case cmp.Or(err, until, sizeErr) != nil:
			return nil, nil, cmp.Or(err, until, sizeErr)
		case value.keep(reply.until.Val(), isInstant):
			value.Type, value.Text, value.Length = layouts.StringValue, text, int64(len(text))
			if value.more = len(text) == r.head; value.more && !r.onlyText {
				others = append(others, value)
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

// errMuch says that values of several limits are too much to be held at once.
var errMuch = errors.New("too much to be held at once")

// addNew reads the values of those store keys that are not known yet. It reports whether there are any.
func (r *reader) addNew(ctx context.Context, known map[string]*held, storeKeys []string) (added bool, err error) {
	unread := make([]string, 0, len(storeKeys))
	for _, storeKey := range storeKeys {
		if known[storeKey] == nil {
			known[storeKey] = &held{}
			unread = append(unread, storeKey)
		}
	}
	for some := range slices.Chunk(unread, 2*redisserver.KeysPerRead) {
		values := make([]held, len(some))
		if err := r.read(ctx, values, some); err != nil {
			return false, err
		}
		for i := range values {
			known[some[i]] = &values[i]
		}
	}
	return len(unread) > 0, nil
}

package keyspace

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"

	redisserver "github.com/limitctl/limitctl/internal/redis"
	"github.com/limitctl/limitctl/pkg/limiter/layouts"
)

// readTyped reads values of any type: first the type and the size of each, and then what is
// in it, as far as that is not too much. It returns those that are on another server.
func (r *reader) readTyped(ctx context.Context, server redis.Cmdable, values []*heldValue) (moved []*heldValue, err error) {
	const maxTypeChanges = 3 // looks at values that change their type meanwhile
	for try := range 1 + maxTypeChanges {
		if try == 0 && !r.hashes {
			continue
		}
		there, elsewhere, err := r.types(ctx, server, values, try == 0)
		if err == nil {
			err = r.measure(ctx, server, there)
		}
		if err == nil {
			err = r.reserve(there)
		}
		if err != nil {
			return nil, err
		}
		moved = append(moved, elsewhere...)
		values = nil
		for len(there) > 0 {
			n := perExchange(len(there), func(i int) int { return int(max(there[i].reads, min(there[i].size, mostKept))) })
			changed, elsewhere, err := r.contents(ctx, server, there[:n])
			if err != nil {
				return nil, err
			}
			moved, values, there = append(moved, elsewhere...), append(values, changed...), there[n:]
		}
		if len(values) == 0 {
			return moved, nil
		}
	}
	for _, held := range values {
		held.tooLarge, held.read = "a value that changes its type again and again", true
	}
	return moved, nil
}

// reserve adds up what is about to be read.
func (r *reader) reserve(values []*heldValue) error {
	for _, held := range values {
		if r.bytes += held.reads; held.reads > mostRead {
			r.bytes -= held.reads
		}
		if r.dumps && held.size <= mostKept {
			r.bytes += held.size
		}
	}
	if r.several && r.bytes > mostHeld {
		return errMuch
	}
	return nil
}

// types asks for the types and the sizes of values. With guess they are taken to be hashes. Those
// that are not come to light when they are read.
func (r *reader) types(ctx context.Context, server redis.Cmdable, values []*heldValue, guess bool) (
	there, moved []*heldValue, err error,
) {
	pipe := server.Pipeline()
	types, sizes := make([]*redis.StatusCmd, len(values)), make([]*redis.IntCmd, len(values))
	for i, held := range values {
		if !guess {
			types[i] = pipe.Type(ctx, held.StoreKey)
		}
		sizes[i] = pipe.MemoryUsage(ctx, held.StoreKey)
	}
	if err := r.timed(ctx, pipe, len(values)); err != nil {
		return nil, nil, err
	}
	for i, held := range values {
		kind, err := string(layouts.HashValue), error(nil)
		if !guess {
			kind, err = types[i].Result()
		}
		size, sizeErr := sizeIn(sizes[i])
		switch {
		case redisserver.IsElsewhere(err) || redisserver.IsElsewhere(sizeErr):
			moved = append(moved, held)
			continue
		case err != nil:
			return nil, nil, err
		case sizeErr != nil && (r.sizes || !redisserver.LacksRight(sizeErr)):
			return nil, nil, sizeErr
		}
		if held.Type = layouts.ValueType(kind); held.Type == layouts.NoValue || errors.Is(sizes[i].Err(), redis.Nil) {
			held.gone()
			continue
		}
		if held.size, held.reads = size, size; r.sizes {
			held.bytes = size
		}
		there = append(there, held)
	}
	return there, moved, nil
}

// measure finds out what will be read of values that are large, or may be.
func (r *reader) measure(ctx context.Context, server redis.Cmdable, values []*heldValue) error {
	var large []*heldValue
	var lengths []*redis.IntCmd
	pipe := server.Pipeline()
	for _, held := range values {
		if held.size > 0 && held.size <= mostRead {
			continue
		}
		if length := askLength(ctx, pipe, held); length != nil {
			large, lengths = append(large, held), append(lengths, length)
		}
	}
	if len(large) == 0 {
		return nil
	}
	if err := execute(ctx, pipe); err != nil {
		return err
	}
	for i, held := range large {
		length, err := lengths[i].Result()
		if err != nil || length == 0 {
			continue // it has changed, which will come to light
		}
		switch held.Type {
		case layouts.HashValue: // all of it or nothing
			if held.size == 0 && length > layouts.MostMembers {
				held.reads = mostRead + 1
			}
		case layouts.ListValue, layouts.SortedSetValue:
			held.reads = held.size / length * min(length, layouts.MostMembers)
		case layouts.StringValue:
			held.reads = min(length, layouts.MostText)
		default:
			held.reads = 0
		}
	}
	return nil
}

// askLength asks for the length of a value, or how many members it has. It returns nil for a
// type that is not known.
func askLength(ctx context.Context, pipe redis.Pipeliner, held *heldValue) *redis.IntCmd {
	switch held.Type {
	case layouts.StringValue:
		return pipe.StrLen(ctx, held.StoreKey)
	case layouts.HashValue:
		return pipe.HLen(ctx, held.StoreKey)
	case layouts.ListValue:
		return pipe.LLen(ctx, held.StoreKey)
	case layouts.SetValue:
		return pipe.SCard(ctx, held.StoreKey)
	case layouts.SortedSetValue:
		return pipe.ZCard(ctx, held.StoreKey)
	default: // handled below
	}
	return nil
}

// typedReply is what was asked of a value whose type is known.
type typedReply struct {
	length  *redis.IntCmd // of what is not a small hash
	members redis.Cmder   // nil if they are too many
	dump    *redis.StringCmd
	noDump  bool // the value is too large for a backup
	until   lifetime
}

// contents reads what is in values. changed are those that have another type by now.
func (r *reader) contents(ctx context.Context, server redis.Cmdable, values []*heldValue) (changed, moved []*heldValue, err error) {
	pipe := server.Pipeline()
	clock := r.clock(ctx, pipe, server)
	replies := make([]typedReply, len(values))
	for i, held := range values {
		replies[i] = r.ask(ctx, pipe, held)
	}
	if err := r.timed(ctx, pipe, len(values)); err != nil {
		return nil, nil, err
	}
	now, err := clock()
	if err != nil {
		return nil, nil, err
	}
	if r.isTooOld(replies[0].until) {
		return r.contents(ctx, server, values)
	}
	for i, held := range values {
		held.at = now
		switch err := held.take(&replies[i]); {
		case redisserver.IsElsewhere(err):
			moved = append(moved, held)
		case redisserver.IsErrorReply(err, "WRONGTYPE"):
			changed = append(changed, held)
		case err != nil:
			return nil, nil, err
		}
	}
	return changed, moved, nil
}

// ask asks for what is in a value, or for less if that is too much.
func (r *reader) ask(ctx context.Context, pipe redis.Pipeliner, held *heldValue) (reply typedReply) {
	storeKey := held.StoreKey
	if held.Type != layouts.HashValue || held.reads > mostRead {
		reply.length = askLength(ctx, pipe, held)
	}
	switch {
	case held.reads > mostRead:
	case held.Type == layouts.StringValue:
		reply.members = pipe.GetRange(ctx, storeKey, 0, layouts.MostText-1)
	case held.Type == layouts.HashValue:
		reply.members = pipe.HGetAll(ctx, storeKey)
	case held.Type == layouts.ListValue:
		reply.members = pipe.LRange(ctx, storeKey, 0, layouts.MostMembers-1)
	case held.Type == layouts.SortedSetValue:
		reply.members = pipe.ZRangeWithScores(ctx, storeKey, -layouts.MostMembers, -1)
	}
	if r.dumps && held.Type != layouts.StringValue {
		if reply.noDump = held.size > mostKept; !reply.noDump {
			reply.dump = pipe.Dump(ctx, storeKey)
		}
	}
	reply.until = r.lifetimeOf(ctx, pipe, storeKey)
	return reply
}

// take takes what was answered about a value.
func (h *heldValue) take(reply *typedReply) error {
	if reply.length != nil && reply.length.Err() != nil {
		return reply.length.Err()
	}
	if reply.members != nil && reply.members.Err() != nil {
		return reply.members.Err()
	}
	if err := reply.until.cmd.Err(); err != nil {
		return err
	}
	if !h.keep(reply.until) {
		return nil
	}
	h.read = true
	if reply.length != nil {
		h.Length = reply.length.Val()
	}
	h.takeMembers(reply.members)
	switch {
	case h.Type == layouts.NoValue:
		return nil
	case h.reads > mostRead && h.Type == layouts.HashValue && h.size == 0:
		h.isMore(layouts.MostMembers, h.Length, "fields")
	case h.reads > mostRead:
		h.isMore(mostRead, h.size, "bytes of memory")
	case reply.noDump:
		h.isMore(mostKept, h.size, "bytes of memory into a backup")
	case h.Type == layouts.StringValue && h.Length > int64(len(h.Text)):
		h.isMore(layouts.MostText, h.Length, "bytes")
	}
	if reply.dump == nil {
		return nil
	}
	dump, err := reply.dump.Bytes()
	if errors.Is(err, redis.Nil) { // it expired between the answers
		h.gone()
		return nil
	}
	h.dump = dump
	return err
}

// takeMembers takes the parts of a value.
func (h *heldValue) takeMembers(reply redis.Cmder) {
	switch cmd := reply.(type) {
	case *redis.StringCmd:
		h.Text, _ = cmd.Bytes()
	case *redis.MapStringStringCmd:
		h.Members = make([]layouts.Member, 0, len(cmd.Val()))
		for name, text := range cmd.Val() {
			h.Members = append(h.Members, layouts.Member{Name: name, Text: text})
		}
		h.Length = int64(len(h.Members))
		if h.Length == 0 { // it expired between the answers
			h.gone()
		}
	case *redis.StringSliceCmd:
		for _, name := range cmd.Val() {
			h.Members = append(h.Members, layouts.Member{Name: name})
		}
	case *redis.ZSliceCmd:
		for _, z := range cmd.Val() {
			name, _ := z.Member.(string)
			h.Members = append(h.Members, layouts.Member{Name: name, Score: z.Score})
		}
	}
}

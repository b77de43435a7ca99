package keyspace

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/redis/go-redis/v9"

	redisserver "github.com/limitctl/limitctl/internal/redis"
	"github.com/limitctl/limitctl/pkg/limiter/layouts"
)

// held is a value as it was read.
type held struct {
	layouts.Value           // the type is empty if it is not known
	at            time.Time // what the server's clock showed just before the value was read
	expires       time.Time
	more          bool // only the beginning of the string was read
	dump          []byte
	bytes         int64
	// size is the memory that the value takes, 0 if the user may not know, and reads about what its members take that
	// are read.
	size, reads int64
	tooLarge    string // what of the value is more than is read, if anything is
}

const (
	// firstText is how much of a string is read at first.
	firstText = 4096
	// mostRead is how many bytes of memory the members take that are read of a value.
	mostRead = 4 << 20
	// mostKept is how many bytes of memory a value takes that a backup can hold. The largest answer that the store lets
	// through is some more.
	mostKept = 16 << 20
	// mostHeld is about how many bytes of memory the values take that are held at once, strings that are read in one go
	// aside.
	mostHeld = 4 * mostRead
)

// gone says that there is nothing under the key.
func (h *held) gone() {
	*h = held{Value: layouts.Value{StoreKey: h.StoreKey, Type: layouts.NoValue}, at: h.at}
}

// keep notes until when the value is kept, in ms: an instant, or how long. It reports whether there is a value.
func (h *held) keep(ms int64, isInstant bool) (there bool) {
	switch { // in ms, as other limiters set expiries that no Duration can have
	case ms == -2:
		h.gone()
		return false
	case ms < 0:
		h.TTL, h.expires = -1, time.Time{}
	case isInstant:
		h.expires = time.UnixMilli(ms)
		h.TTL = max(0, h.expires.Sub(h.at)) // which is the longest there is if it is longer
	default:
		h.TTL = time.Duration(min(ms, math.MaxInt64/int64(time.Millisecond))) * time.Millisecond
		if h.expires = h.at.Add(h.TTL); h.TTL.Milliseconds() < ms {
			h.expires = time.UnixMilli(h.at.UnixMilli() + ms)
		}
	}
	return true
}

// kept is the value as a backup holds it.
func (h *held) kept() []byte {
	if h.Type == layouts.StringValue {
		return dumpText(h.Text)
	}
	return h.dump
}

// isMore says that a value has so many of what, which is more than is read or kept.
func (h *held) isMore(than int64, has int64, what string) {
	h.tooLarge = fmt.Sprintf("a %s of %d %s, and limitctl takes at most %d", h.Type, has, what, than)
}

// reserve adds up what is about to be read.
func (r *reader) reserve(values []*held) error {
	for _, value := range values {
		if value.reads <= r.mostRead {
			r.bytes += value.reads
		}
		if r.query.Records && value.size <= mostKept {
			r.bytes += value.size
		}
	}
	if r.several && r.bytes > mostHeld {
		return errMuch
	}
	return nil
}

// types asks for the types of values that are not known, and for the memory of what is no string.
func (r *reader) types(ctx context.Context, server redis.Cmdable, values []*held) (there, moved []*held, err error) {
	pipe := server.Pipeline()
	types, sizes := make([]*redis.StatusCmd, len(values)), make([]*redis.IntCmd, len(values))
	asked := 0
	for i, value := range values {
		if value.Type == "" {
			types[i], asked = pipe.Type(ctx, value.StoreKey), asked+1
		}
		if value.Type != layouts.StringValue && !r.onlyText {
			sizes[i], asked = pipe.MemoryUsage(ctx, value.StoreKey), asked+1
		}
	}
	if asked == 0 {
		return values, nil, nil
	}
	if err := r.execute(ctx, pipe, len(values)); err != nil {
		return nil, nil, err
	}
	for i, value := range values {
		kind, err := string(value.Type), error(nil)
		if types[i] != nil {
			kind, err = types[i].Result()
		}
		size, sizeErr := sizeIn(sizes[i])
		switch {
		case redisserver.IsElsewhere(err) || redisserver.IsElsewhere(sizeErr):
			moved = append(moved, value)
			continue
		case err != nil && !r.onlyText:
			return nil, nil, err
		case sizeErr != nil && (r.query.Bytes || !redisserver.LacksRight(sizeErr)):
			return nil, nil, sizeErr
		}
		if value.Type = layouts.ValueType(kind); value.Type == layouts.NoValue || sizes[i] != nil &&
			errors.Is(sizes[i].Err(), redis.Nil) {
			value.gone()
			continue
		}
		if value.size, value.reads = size, size; r.query.Bytes && size > 0 {
			value.bytes = size
		}
		there = append(there, value)
	}
	return there, moved, nil
}

// measure finds out what will be read of values that are large, or may be.
func (r *reader) measure(ctx context.Context, server redis.Cmdable, values []*held) error {
	var large []*held
	var lengths []*redis.IntCmd
	pipe := server.Pipeline()
	for _, value := range values {
		if value.size > 0 && value.size <= r.mostRead {
			continue
		}
		if length := askLength(ctx, pipe, value); length != nil {
			large, lengths = append(large, value), append(lengths, length)
		}
	}
	if len(large) == 0 {
		return nil
	}
	if err := r.execute(ctx, pipe, len(large)); err != nil {
		return err
	}
	for i, value := range large {
		length, err := lengths[i].Result()
		if err != nil || length == 0 {
			continue // it has changed, which will come to light
		}
		switch value.Type {
		case layouts.HashValue: // all of it or nothing
			if value.size == 0 && length > layouts.MostMembers {
				value.reads = r.mostRead + 1
			}
		case layouts.ListValue, layouts.SortedSetValue:
			value.reads = value.size / length * min(length, layouts.MostMembers)
		case layouts.StringValue:
			value.reads = min(length, r.mostText)
		default:
			value.reads = 0
		}
	}
	return nil
}

// askLength asks for the length of a value, or how many members it has. It returns nil for a type that is not known.
func askLength(ctx context.Context, pipe redis.Pipeliner, value *held) *redis.IntCmd {
	switch value.Type {
	case layouts.StringValue:
		return pipe.StrLen(ctx, value.StoreKey)
	case layouts.HashValue:
		return pipe.HLen(ctx, value.StoreKey)
	case layouts.ListValue:
		return pipe.LLen(ctx, value.StoreKey)
	case layouts.SetValue:
		return pipe.SCard(ctx, value.StoreKey)
	case layouts.SortedSetValue:
		return pipe.ZCard(ctx, value.StoreKey)
	default: // handled below
	}
	return nil
}

// contents reads what is in values.
func (r *reader) contents(ctx context.Context, server redis.Cmdable, values []*held) (moved []*held, err error) {
	pipe := server.Pipeline()
	clock := pipe.Time(ctx)
	lifetime, isInstant := r.lifetimeCommand()
	takes, lifetimes := make([]func() error, len(values)), make([]*redis.IntCmd, len(values))
	for i, value := range values {
		takes[i] = r.ask(ctx, pipe, value)
		lifetimes[i] = redis.NewIntCmd(ctx, lifetime, value.StoreKey)
		_ = pipe.Process(ctx, lifetimes[i]) // the error is that of the pipeline
	}
	if err := r.execute(ctx, pipe, len(values)); err != nil {
		return nil, err
	}
	now, err := clock.Result()
	if err != nil {
		return nil, err
	}
	r.now = now
	if r.isTooOld(isInstant, lifetimes[0].Err()) {
		return r.contents(ctx, server, values)
	}
	for i, value := range values {
		value.at = now
		err := takes[i]()
		if isNil := errors.Is(err, redis.Nil); err == nil || isNil {
			err = lifetimes[i].Err()
			if isNil { // it expired between the answers
				value.gone()
			} else if err == nil {
				value.keep(lifetimes[i].Val(), isInstant)
			}
		}
		switch {
		case redisserver.IsElsewhere(err):
			moved = append(moved, value)
		case redisserver.IsErrorReply(err, "WRONGTYPE"):
			value.tooLarge = "a value of another type by now"
		case err != nil:
			return nil, err
		}
	}
	return moved, nil
}

// ask asks for what is in a value, or for less if that is too much. take takes the answers.
func (r *reader) ask(ctx context.Context, pipe redis.Pipeliner, h *held) (take func() error) {
	var takes []func() error
	isMuch := h.reads > r.mostRead
	if h.Type != layouts.HashValue || isMuch {
		if length := askLength(ctx, pipe, h); length != nil {
			takes = append(takes, func() (err error) { h.Length, err = length.Result(); return err })
		}
	}
	switch {
	case isMuch && h.Type == layouts.HashValue && h.size == 0:
		takes = append(takes, func() error { h.isMore(layouts.MostMembers, h.Length, "fields"); return nil })
	case isMuch:
		h.isMore(mostRead, h.size, "bytes of memory")
	default:
		if members := r.askMembers(ctx, pipe, h); members != nil {
			takes = append(takes, members)
		}
	}
	if r.query.Records && h.Type != layouts.StringValue {
		if h.size <= mostKept {
			dump := pipe.Dump(ctx, h.StoreKey)
			takes = append(takes, func() (err error) { h.dump, err = dump.Bytes(); return err })
		} else if !isMuch {
			h.isMore(mostKept, h.size, "bytes of memory into a backup")
		}
	}
	return func() error {
		for _, take := range takes {
			if err := take(); err != nil {
				return err
			}
		}
		return nil
	}
}

// askMembers asks for what is in a value. It returns nil for a set, whose members are not read.
func (r *reader) askMembers(ctx context.Context, pipe redis.Pipeliner, h *held) (take func() error) {
	switch h.Type {
	case layouts.StringValue:
		text := pipe.GetRange(ctx, h.StoreKey, 0, r.mostText-1)
		return func() (err error) {
			h.Text, err = text.Bytes()
			if h.more = false; h.Length > int64(len(h.Text)) {
				h.isMore(layouts.MostText, h.Length, "bytes")
			}
			return err
		}
	case layouts.HashValue:
		fields := pipe.HGetAll(ctx, h.StoreKey)
		return func() error {
			h.Members = make([]layouts.Member, 0, len(fields.Val()))
			for name, text := range fields.Val() {
				h.Members = append(h.Members, layouts.Member{Name: name, Text: text})
			}
			if h.Length = int64(len(h.Members)); h.Length == 0 && fields.Err() == nil { // it expired
				return redis.Nil
			}
			return fields.Err()
		}
	case layouts.ListValue:
		items := pipe.LRange(ctx, h.StoreKey, 0, layouts.MostMembers-1)
		return func() error {
			for _, name := range items.Val() {
				h.Members = append(h.Members, layouts.Member{Name: name})
			}
			return items.Err()
		}
	case layouts.SortedSetValue:
		scores := pipe.ZRangeWithScores(ctx, h.StoreKey, -layouts.MostMembers, -1)
		return func() error {
			for _, z := range scores.Val() {
				name, _ := z.Member.(string)
				h.Members = append(h.Members, layouts.Member{Name: name, Score: z.Score})
			}
			return scores.Err()
		}
	default: // handled below
	}
	return nil
}

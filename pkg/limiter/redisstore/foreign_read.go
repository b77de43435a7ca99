package redisstore

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/redisserver"
	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/foreign"
)

// heldValue is a value of another limiter as it was read.
type heldValue struct {
	foreign.Value
	dump  []byte
	bytes int64
}

// read reads what the looks need, from a server and where else their keys are.
func (sc *foreignScan) read(ctx context.Context, server redis.Cmdable, looks []*foreign.Look) ([]foreignFound, error) {
	now, err := server.Time(ctx).Result()
	if err != nil {
		return nil, err
	}
	if sc.store.clock != nil {
		now = sc.store.clock()
	}
	var storeKeys []string
	values := map[string]*heldValue{}
	for _, look := range looks {
		for _, storeKey := range look.StoreKeys(limiter.InstantOf(now)) {
			if values[storeKey] == nil {
				values[storeKey] = &heldValue{Value: foreign.Value{StoreKey: storeKey, Type: foreign.NoValue}}
				storeKeys = append(storeKeys, storeKey)
			}
		}
	}
	if sc.store.isCluster {
		server = sc.store.client // keys that belong together can be on several masters
	}
	if err := sc.readValues(ctx, server, storeKeys, values); err != nil {
		return nil, err
	}
	var all []foreignFound
	for _, look := range looks {
		found := foreignFound{}
		found.entries, found.principal, found.err = look.Judge(func(storeKey string) foreign.Value { return values[storeKey].Value })
		for i := range found.entries {
			sc.complete(&found.entries[i], values, now)
		}
		found.entries = dropUnusedForeign(found.entries)
		if len(found.entries) > 0 || found.err != nil {
			all = append(all, found)
		}
	}
	return all, nil
}

// dropUnusedForeign leaves out entries of which nothing is known to be in use, unless something
// is wrong with their keys.
func dropUnusedForeign(entries []limiter.Entry) []limiter.Entry {
	kept := entries[:0]
	for i := range entries {
		if e := &entries[i]; !e.UsedKnown() || e.Used > 0 || e.TTL < 0 || len(e.Defects) > 0 {
			kept = append(kept, *e)
		}
	}
	return kept
}

// complete adds what the query asks for besides.
func (sc *foreignScan) complete(e *limiter.Entry, values map[string]*heldValue, now time.Time) {
	for i := range e.Record.Parts {
		part := &e.Record.Parts[i]
		held := values[part.StoreKey]
		e.Bytes += held.bytes
		if held.TTL >= 0 {
			part.Expires = now.Add(held.TTL)
		}
		if !sc.query.Records {
			continue
		}
		if part.Dump = held.dump; part.Field != "" {
			text, _ := held.Field(part.Field)
			part.Dump = []byte(text)
		}
	}
}

// readValues reads values, those of strings in one round trip and others in two more.
func (sc *foreignScan) readValues(ctx context.Context, server redis.Cmdable, storeKeys []string, values map[string]*heldValue) error {
	pipe := server.Pipeline()
	texts, ttls := make([]*redis.StringCmd, len(storeKeys)), make([]*redis.DurationCmd, len(storeKeys))
	dumps, sizes := make([]*redis.StringCmd, len(storeKeys)), make([]*redis.IntCmd, len(storeKeys))
	for i, storeKey := range storeKeys {
		if sc.query.Records {
			dumps[i] = pipe.Dump(ctx, storeKey)
		}
		texts[i] = pipe.GetRange(ctx, storeKey, 0, foreign.MostText-1)
		ttls[i] = pipe.PTTL(ctx, storeKey)
		if sc.query.Bytes {
			sizes[i] = pipe.MemoryUsage(ctx, storeKey)
		}
	}
	if err := execute(ctx, pipe); err != nil {
		return err
	}
	var others []*heldValue
	for i, storeKey := range storeKeys {
		held := values[storeKey]
		if ttls[i].Err() != nil {
			return ttls[i].Err()
		}
		if held.TTL = ttls[i].Val(); held.TTL == -2 {
			continue
		}
		if dumps[i] != nil {
			held.dump, _ = dumps[i].Bytes()
		}
		if sizes[i] != nil {
			held.bytes = sizes[i].Val()
		}
		switch text, err := texts[i].Bytes(); {
		case redisserver.IsErrorReply(err, "WRONGTYPE"):
			others = append(others, held)
		case err != nil:
			return err
		default:
			held.Type, held.Text, held.Length = foreign.StringValue, text, int64(len(text))
		}
	}
	if len(others) == 0 {
		return nil
	}
	return sc.readOthers(ctx, server, others)
}

// execute runs a pipeline. An error is one of all that was asked; what single commands answer
// is looked at by the caller.
func execute(ctx context.Context, pipe redis.Pipeliner) error {
	if _, err := pipe.Exec(ctx); err != nil && !redisserver.IsErrorReply(err, "") && !errors.Is(err, redis.Nil) {
		return err
	}
	return nil
}

// readOthers reads values that are not strings.
func (sc *foreignScan) readOthers(ctx context.Context, server redis.Cmdable, others []*heldValue) error {
	pipe := server.Pipeline()
	types := make([]*redis.StatusCmd, len(others))
	for i, held := range others {
		types[i] = pipe.Type(ctx, held.StoreKey)
	}
	if err := execute(ctx, pipe); err != nil {
		return err
	}
	pipe = server.Pipeline()
	lengths, members := make([]*redis.IntCmd, len(others)), make([]redis.Cmder, len(others))
	for i, held := range others {
		if types[i].Err() != nil {
			return types[i].Err()
		}
		held.Type = foreign.ValueType(types[i].Val())
		switch held.Type {
		case foreign.HashValue:
			lengths[i], members[i] = pipe.HLen(ctx, held.StoreKey), pipe.HGetAll(ctx, held.StoreKey)
		case foreign.ListValue:
			lengths[i], members[i] = pipe.LLen(ctx, held.StoreKey), pipe.LRange(ctx, held.StoreKey, 0, foreign.MostMembers-1)
		case foreign.SetValue:
			lengths[i] = pipe.SCard(ctx, held.StoreKey)
		case foreign.SortedSetValue:
			lengths[i], members[i] = pipe.ZCard(ctx, held.StoreKey), pipe.ZRangeWithScores(ctx, held.StoreKey, -foreign.MostMembers, -1)
		}
	}
	if err := execute(ctx, pipe); err != nil {
		return err
	}
	for i, held := range others {
		if lengths[i] == nil {
			continue
		}
		if err := lengths[i].Err(); err != nil {
			return err
		}
		held.Length = lengths[i].Val()
		switch cmd := members[i].(type) {
		case *redis.MapStringStringCmd:
			for name, text := range cmd.Val() {
				held.Members = append(held.Members, foreign.Member{Name: name, Text: text})
			}
		case *redis.StringSliceCmd:
			for _, name := range cmd.Val() {
				held.Members = append(held.Members, foreign.Member{Name: name})
			}
		case *redis.ZSliceCmd:
			for _, z := range cmd.Val() {
				name, _ := z.Member.(string)
				held.Members = append(held.Members, foreign.Member{Name: name, Score: z.Score})
			}
		}
	}
	return nil
}

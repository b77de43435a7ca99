package doctor

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	redisserver "github.com/limitctl/limitctl/internal/redis"
	"github.com/limitctl/limitctl/lua"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// keys reads the keys of every master, one after the other, up to the limit.
func (e *examination) keys(ctx context.Context, servers []*server) error {
	facts := keyFacts{prefix: e.Prefix, layout: admin.OwnLayout(e.Prefix), complete: true, counted: true, perPolicy: map[string]int64{},
		byFrequency: strings.HasSuffix(servers[0].before["maxmemory_policy"], "-lfu")}
	for i, s := range servers {
		limit := 0
		if e.ScanLimit > 0 { // the next masters can use what one leaves
			limit = max(1, (e.ScanLimit-int(facts.looked))/(len(servers)-i))
		}
		err := e.scan(ctx, s, &facts, limit)
		if denied := (*deniedError)(nil); errors.As(err, &denied) {
			e.cannotLook(s, "keys", denied.command, err)
			return nil
		}
		if redisserver.IsReply(err) {
			e.cannotLook(s, "keys", "scan", err)
			return nil
		}
		if err != nil {
			return err
		}
	}
	e.holdsLimits = facts.limits > 0 || !facts.complete
	e.report.add(judgeKeys(&facts)...)
	if facts.noHeat != nil {
		e.cannotLook(nil, "hottest", "object|"+facts.heatQuestion(), facts.noHeat)
	}
	if facts.noSize != nil {
		e.cannotLook(nil, "size", "memory|usage", facts.noSize)
	}
	return nil
}

// scan reads at most limit keys of a server; 0 means all.
func (e *examination) scan(ctx context.Context, s *server, facts *keyFacts, limit int) error {
	keys := redisserver.Scan[string]{
		Servers: s.alone, Match: store.EscapeGlob(e.Prefix) + ":*",
		Select: func(storeKey string) (string, bool) { return storeKey, true },
		Read: func(ctx context.Context, page redisserver.Page[string]) error {
			for batch := range slices.Chunk(page.Keys, redisserver.KeysPerRead) {
				if err := facts.read(ctx, s.client, batch); err != nil {
					return err
				}
			}
			return nil
		},
	}
	coverage, err := keys.Server(ctx, s.client, limit)
	if coverage.Complete && coverage.Counted {
		coverage.Looked = coverage.Total // the last batch is not full
	}
	facts.looked += coverage.Looked
	facts.total += coverage.Total
	facts.counted = facts.counted && coverage.Counted
	facts.complete = facts.complete && coverage.Complete
	return err
}

// deniedError is the error of a command that the user may not run.
type deniedError struct {
	command string
	error
}

func (e *deniedError) Unwrap() error { return e.error }

// read reads about keys, in one round trip. The idle time comes first, since for the server, reading a key is using
// it.
func (f *keyFacts) read(ctx context.Context, client *redis.Client, storeKeys []string) error {
	pipe := client.Pipeline()
	now := pipe.Time(ctx)
	heat, sizes := make([]*redis.Cmd, len(storeKeys)), make([]*redis.IntCmd, len(storeKeys))
	ttls, values := make([]*redis.DurationCmd, len(storeKeys)), make([]*redis.StringCmd, len(storeKeys))
	for i, key := range storeKeys {
		heat[i] = pipe.Do(ctx, "object", f.heatQuestion(), key)
		sizes[i] = pipe.MemoryUsage(ctx, key)
		ttls[i] = pipe.PTTL(ctx, key)
		values[i] = pipe.GetRange(ctx, key, 0, lua.HeadSize-1)
	}
	if _, err := pipe.Exec(ctx); err != nil && !redisserver.IsReply(err) {
		return err
	}
	for i, storeKey := range storeKeys {
		for command, err := range map[string]error{"pttl": ttls[i].Err(), "getrange": values[i].Err()} {
			if redisserver.LacksRight(err) {
				return &deniedError{command, err}
			}
		}
		if ttls[i].Val() == -2 { // it has expired since the scan
			continue
		}
		if values[i].Err() != nil && !redisserver.IsErrorReply(values[i].Err(), "WRONGTYPE") {
			continue // its slot has moved away
		}
		value, _ := values[i].Bytes()
		held := admin.Held{StoreKey: storeKey, Text: value, Length: int64(len(value)), TTL: ttls[i].Val()}
		if len(value) == lua.HeadSize {
			held.Length = int64(store.MaxRecordSize) // at most
		}
		share, ours := f.classify(&held, values[i].Err(), store.InstantOf(now.Val()))
		if size, err := sizes[i].Result(); err == nil {
			f.biggest.add(ranked{storeKey: storeKey, value: size})
			if ours {
				f.bytes += size
			}
		} else if !errors.Is(err, redis.Nil) {
			f.noSize = err
		}
		if !ours {
			continue
		}
		f.limits++
		if ttls[i].Val() == -1 {
			f.noTTL.add(storeKey)
		}
		if n, err := heat[i].Int64(); err != nil {
			if !errors.Is(err, redis.Nil) {
				f.noHeat = err
			}
		} else if f.byFrequency {
			f.hottest.add(ranked{storeKey, n, share})
		} else {
			f.hottest.add(ranked{storeKey, -n, share})
		}
	}
	return nil
}

package redisstore

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/pkg/limiter"
)

const (
	// scanCount is how many keys the server looks at in one SCAN; a thousand
	// take it well under a millisecond.
	scanCount = 1000
	// deleteBatch is how many keys one script call deletes.
	deleteBatch = 500
	// firstBytes is how much of each value a scan reads: every record whole but
	// a large log's, which is asked for by a peek.
	firstBytes = 512
)

// found is what one page of a scan yields.
type found struct {
	entry limiter.Entry
	err   error
}

// Scan implements [limiter.Keyspace] with SCAN on the server, on every master
// of a Cluster at once, and batched reads.
func (s *Store) Scan(ctx context.Context, p limiter.Pattern) iter.Seq2[limiter.Entry, error] {
	return func(yield func(limiter.Entry, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		pages := make(chan []found)
		scanned := make(chan error, 1)
		go func() {
			defer close(pages)
			scanned <- s.scanMasters(ctx, p, pages)
		}()
		defer func() { // leave nothing running behind the caller's back
			cancel()
			for range pages {
			}
		}()
		seen := make(map[string]struct{}) // SCAN may return a key twice
		for page := range pages {
			for _, f := range page {
				if _, again := seen[f.entry.StoreKey]; again {
					continue
				}
				seen[f.entry.StoreKey] = struct{}{}
				if !yield(f.entry, f.err) {
					return
				}
			}
		}
		if err := <-scanned; err != nil {
			yield(limiter.Entry{}, s.translate(err, "scan", false, nil))
		}
	}
}

func (s *Store) scanMasters(ctx context.Context, p limiter.Pattern, pages chan<- []found) error {
	switch client := s.client.(type) {
	case *redis.ClusterClient:
		return client.ForEachMaster(ctx, func(ctx context.Context, master *redis.Client) error {
			return s.scanServer(ctx, master, p, pages)
		})
	default:
		return s.scanServer(ctx, client, p, pages)
	}
}

func (s *Store) scanServer(ctx context.Context, server redis.Cmdable, p limiter.Pattern, pages chan<- []found) error {
	match := limiter.EscapeGlob(s.prefix) + ":{" + p.RedisGlob() + "}:*"
	var cursor uint64
	for {
		storeKeys, next, err := server.Scan(ctx, cursor, match, scanCount).Result()
		if err != nil {
			return err
		}
		page, err := s.readPage(ctx, server, p, storeKeys)
		if err != nil {
			return err
		}
		select {
		case pages <- page:
		case <-ctx.Done():
			return ctx.Err()
		}
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}

// readPage reads the records of storeKeys that p selects, in one round trip and
// one more for each large log.
func (s *Store) readPage(ctx context.Context, server redis.Cmdable, p limiter.Pattern, storeKeys []string) ([]found, error) {
	page := make([]found, 0, len(storeKeys))
	for _, storeKey := range storeKeys {
		if key, ok := limiter.ParseStoreKey(s.prefix, storeKey); ok && p.Match(key.Subject) {
			page = append(page, found{entry: limiter.Entry{Key: key, StoreKey: storeKey}})
		}
	}
	if len(page) == 0 {
		return nil, nil
	}
	pipe := server.Pipeline()
	serverTime := pipe.Time(ctx)
	values, ttls := make([]*redis.StringCmd, len(page)), make([]*redis.DurationCmd, len(page))
	for i := range page {
		values[i] = pipe.GetRange(ctx, page[i].entry.StoreKey, 0, firstBytes-1)
		ttls[i] = pipe.PTTL(ctx, page[i].entry.StoreKey)
	}
	if _, err := pipe.Exec(ctx); err != nil && !isServerError(err, "WRONGTYPE") {
		return nil, err
	}
	if serverTime.Err() != nil {
		return nil, serverTime.Err()
	}
	now := limiter.InstantOf(serverTime.Val())
	if s.clock != nil {
		now = limiter.InstantOf(s.clock())
	}
	kept := page[:0]
	for i, f := range page {
		value, err := values[i].Bytes()
		switch {
		case isServerError(err, "WRONGTYPE"):
			f.err = s.wrongType(ctx, server, f.entry.StoreKey)
		case err != nil:
			return nil, err
		case ttls[i].Err() != nil:
			return nil, ttls[i].Err()
		case ttls[i].Val() == -2: // it expired since the scan
			continue
		default:
			f.entry.TTL = ttls[i].Val()
			if f.err = s.explainRecord(ctx, &f.entry, value, now); f.err != nil && !errors.Is(f.err, limiter.ErrForeign) {
				return nil, f.err
			}
			if f.err == nil && f.entry.Decision.Used == 0 {
				continue // unused, and about to expire
			}
		}
		kept = append(kept, f)
	}
	return kept, nil
}

// wrongType names what a key holds that is no string.
func (s *Store) wrongType(ctx context.Context, server redis.Cmdable, storeKey string) error {
	kind, err := server.Type(ctx, storeKey).Result()
	if err != nil {
		kind = "value of another type"
	}
	return &limiter.ForeignError{StoreKey: storeKey, Holds: "a " + kind + ", which is no limit record"}
}

// explainRecord fills in what the first bytes of a value say about its key.
func (s *Store) explainRecord(ctx context.Context, entry *limiter.Entry, value []byte, now limiter.Instant) error {
	if len(value) == firstBytes {
		return s.explainLargeLog(ctx, entry, value)
	}
	var state limiter.State
	if err := state.DecodeRecord(value); err != nil {
		return &limiter.ForeignError{StoreKey: entry.StoreKey, Holds: err.Error()}
	}
	ttl := entry.TTL
	*entry = limiter.NewEntry(entry.Key, entry.StoreKey, &state, now)
	entry.TTL = ttl // as the server says, which may be somebody's doing
	return nil
}

// explainLargeLog asks the server about a log that is too large to fetch.
func (s *Store) explainLargeLog(ctx context.Context, entry *limiter.Entry, beginning []byte) error {
	limit, err := limiter.DecodeRecordLimit(beginning)
	if err != nil {
		return &limiter.ForeignError{StoreKey: entry.StoreKey, Holds: err.Error()}
	}
	entry.Limit = limit
	var decisions [1]limiter.Decision
	err = s.Decide(ctx, limiter.Peek, []limiter.Request{{Key: entry.Key, Limit: limit, Cost: 1}}, decisions[:])
	entry.Decision = decisions[0]
	return err
}

// Delete implements [limiter.Keyspace] with UNLINK inside a script that checks
// each value first.
func (s *Store) Delete(ctx context.Context, keys ...limiter.Key) (deleted int, err error) {
	for _, key := range keys {
		if err := key.Validate(); err != nil {
			return 0, err
		}
	}
	var foreign []error
	for len(keys) > 0 {
		n := s.deletable(keys)
		storeKeys := make([]string, n)
		for i, key := range keys[:n] {
			storeKeys[i] = limiter.StoreKey(s.prefix, key)
		}
		d, left, err := s.deleteBatch(ctx, storeKeys)
		deleted += d
		if err != nil {
			return deleted, s.translate(err, "deletion", true, storeKeys)
		}
		foreign = append(foreign, left...)
		keys = keys[n:]
	}
	return deleted, errors.Join(foreign...)
}

// deletable returns how many of the first keys one script call can delete.
func (s *Store) deletable(keys []limiter.Key) int {
	n := min(len(keys), deleteBatch)
	if _, cluster := s.client.(*redis.ClusterClient); cluster {
		for i := range n {
			if keys[i].Subject != keys[0].Subject {
				return i // another subject is in another slot
			}
		}
	}
	return n
}

func (s *Store) deleteBatch(ctx context.Context, storeKeys []string) (deleted int, left []error, err error) {
	cmd, err := s.run(ctx, true, s.scripts.deleting(), storeKeys, nil)
	if err != nil {
		return 0, nil, err
	}
	reply, err := cmd.Slice()
	if err != nil || len(reply)%2 == 0 {
		return 0, nil, errors.Join(errReply, err)
	}
	n, _ := reply[0].(int64)
	for i := 1; i < len(reply); i += 2 {
		index, _ := reply[i].(int64)
		holds, _ := reply[i+1].(string)
		if index < 1 || int(index) > len(storeKeys) {
			return int(n), left, fmt.Errorf("%w: it names key %d of %d", errReply, index, len(storeKeys))
		}
		left = append(left, &limiter.ForeignError{StoreKey: storeKeys[index-1], Holds: holds})
	}
	return int(n), left, nil
}

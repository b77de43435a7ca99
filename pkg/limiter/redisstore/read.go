package redisstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/goroutines"
	"github.com/limitctl/limitctl/internal/redisserver"
	"github.com/limitctl/limitctl/lua"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// readAndSend reads keys, and sends a page of them.
func (sc *scan) readAndSend(ctx context.Context, server redis.Cmdable, keys scannedKeys) error {
	p := page{looked: keys.looked}
	for selected := keys.selected; len(selected) > 0; {
		n := min(redisserver.KeysPerRead, len(selected))
		read, err := sc.read(ctx, server, selected[:n])
		if err != nil {
			return err
		}
		if sc.query.Records {
			if read, err = sc.sendLogs(ctx, read); err != nil {
				return err
			}
		}
		p.found = append(p.found, read...)
		selected = selected[n:]
	}
	return sc.send(ctx, p)
}

// sendLogs fetches the records of the large logs among what was read, and sends them. It
// holds only a few at a time. It returns the others.
func (sc *scan) sendLogs(ctx context.Context, read []found) (others []found, err error) {
	var logs []found
	for _, f := range read {
		if f.err == nil && f.entry.Record.Value == nil {
			logs = append(logs, f)
		} else {
			others = append(others, f)
		}
	}
	for len(logs) > 0 {
		n := perExchange(len(logs), func(i int) int {
			return int(logs[i].entry.Limit.MostRecordBytes(logs[i].entry.Used))
		})
		if err := sc.exportLogs(ctx, logs[:n]); err != nil {
			return nil, err
		}
		if err := sc.send(ctx, page{found: dropUnused(logs[:n])}); err != nil {
			return nil, err
		}
		logs = logs[n:]
	}
	return others, nil
}

// exportLogs fetches large logs.
func (sc *scan) exportLogs(ctx context.Context, logs []found) error {
	keys := make([]store.Key, len(logs))
	at := make(map[store.Key]int, len(logs))
	for i := range logs {
		keys[i], at[logs[i].entry.Key] = logs[i].entry.Key, i
	}
	records, err := sc.export(ctx, keys)
	for _, record := range records {
		logs[at[record.Key]].entry.Record = record
	}
	for i := range logs { // without a record it is gone by now, and unused
		if f := &logs[i]; f.entry.Record.Value == nil {
			f.entry.Decision, f.entry.TTL = store.Decision{}, 0
		}
	}
	return err
}

// firstBytes is how much of each value a scan reads. That is the whole record, except of
// a large log: the server is asked about that by a peek.
const firstBytes = lua.HeadSize

// movesFollowed is how often a scan follows keys to another master before it gives up.
const movesFollowed = 10

// read describes the selected keys, in one round trip and another for the large
// logs among them, whose records it does not have. It leaves out those that are gone or
// unused. Those that went to another master before they could be read, the Cluster's
// client finds.
func (sc *scan) read(ctx context.Context, server redis.Cmdable, selected []found) ([]found, error) {
	kept, moved, err := sc.readFrom(ctx, server, selected)
	for n := 0; err == nil && len(moved) > 0 && sc.lanes.IsCluster(); n++ {
		var found []found
		found, moved, err = sc.readFrom(ctx, sc.lanes.Client, moved)
		kept = append(kept, found...)
		if n == movesFollowed && len(moved) > 0 {
			return nil, fmt.Errorf("key %q keeps moving: %w", moved[0].entry.StoreKey, redisserver.ErrNoMaster)
		}
	}
	return kept, err
}

// readFrom is read for keys of which some may be elsewhere, which it returns.
func (sc *scan) readFrom(ctx context.Context, server redis.Cmdable, selected []found) (kept, moved []found, err error) {
	pipe := server.Pipeline()
	serverTime := pipe.Time(ctx)
	values, ttls := make([]*redis.StringCmd, len(selected)), make([]*redis.DurationCmd, len(selected))
	sizes := make([]*redis.IntCmd, len(selected))
	exactly := sc.query.Records && !sc.lanes.Scripts.NoExpireTime.Load()
	for i := range selected {
		values[i] = pipe.GetRange(ctx, selected[i].entry.StoreKey, 0, firstBytes-1)
		if exactly {
			ttls[i] = pipe.PExpireTime(ctx, selected[i].entry.StoreKey)
		} else {
			ttls[i] = pipe.PTTL(ctx, selected[i].entry.StoreKey)
		}
		if sc.query.Bytes {
			sizes[i] = pipe.MemoryUsage(ctx, selected[i].entry.StoreKey, 0)
		}
	}
	if _, err := pipe.Exec(ctx); err != nil && !redisserver.IsErrorReply(err, "") && !errors.Is(err, redis.Nil) {
		return nil, nil, err
	}
	if serverTime.Err() != nil {
		return nil, nil, serverTime.Err()
	}
	if exactly && len(ttls) > 0 && (redisserver.IsErrorReply(ttls[0].Err(), "ERR unknown command") ||
		redisserver.IsErrorReply(ttls[0].Err(), "NOPERM")) {
		sc.lanes.Scripts.NoExpireTime.Store(true)
		return sc.readFrom(ctx, server, selected)
	}
	now := store.InstantOf(serverTime.Val())
	if sc.lanes.Clock != nil {
		now = store.InstantOf(sc.lanes.Clock())
	}
	var largeLogs []int // in kept
	for i, f := range selected {
		value, err := values[i].Bytes()
		// It may have gone between one answer and the next.
		if redisserver.IsElsewhere(err) || redisserver.IsElsewhere(ttls[i].Err()) || sc.query.Bytes && redisserver.IsElsewhere(sizes[i].Err()) {
			moved = append(moved, f)
			continue
		}
		if sc.query.Bytes && sizes[i].Err() == nil {
			f.entry.Bytes = sizes[i].Val()
		} else if sc.query.Bytes && !errors.Is(sizes[i].Err(), redis.Nil) {
			return nil, nil, sizes[i].Err()
		}
		switch {
		case redisserver.IsErrorReply(err, "WRONGTYPE"):
			f.err = &store.ForeignError{StoreKey: f.entry.StoreKey} // what it holds comes later
		case err != nil:
			return nil, nil, err
		case ttls[i].Err() != nil:
			return nil, nil, ttls[i].Err()
		case ttls[i].Val() == -2: // it expired since the scan
			continue
		case f.err != nil: // no limit has the key
		default:
			ttl, expires := ttls[i].Val(), time.Time{}
			switch {
			case ttl == -1:
			case exactly:
				expires = time.UnixMilli(ttl.Milliseconds())
				ttl = max(0, expires.Sub(serverTime.Val()))
			default:
				expires = serverTime.Val().Add(ttl)
			}
			f.err = sc.describe(&f.entry, value, ttl, now)
			switch {
			case f.entry.UsedUnknown:
				largeLogs = append(largeLogs, len(kept))
			case sc.query.Records:
				f.entry.Record = admin.Record{Key: f.entry.Key, Value: value, Expires: expires}
			}
		}
		kept = append(kept, f)
	}
	err = sc.describeLargeLogs(ctx, kept, largeLogs)
	sc.recognise(ctx, server, kept)
	return dropUnused(kept), moved, err
}

// dropUnused leaves out keys of which nothing is in use any more. It keeps those that
// never expire, because somebody removed their expiry and they stay.
func dropUnused(page []found) []found {
	kept := page[:0]
	for _, f := range page {
		if f.err != nil || f.entry.Decision.Used > 0 || f.entry.TTL < 0 {
			kept = append(kept, f)
		}
	}
	return kept
}

// describe fills in what the first bytes of a value say about its key. Of a large log
// they tell only the limit.
func (sc *scan) describe(entry *admin.Entry, first []byte, ttl time.Duration, now store.Instant) error {
	held := admin.Held{StoreKey: entry.StoreKey, Text: first, Length: int64(len(first)), TTL: ttl}
	if len(first) >= firstBytes {
		held.Length = int64(store.MaxRecordSize) // at most; the server is asked about the log
	}
	described, err := sc.lanes.Own.Entry(&sc.query, entry.Key, &held, now)
	if err != nil {
		entry.TTL = ttl
		return foreignIf(err, entry.StoreKey)
	}
	described.Bytes = entry.Bytes
	*entry = described
	if entry.State != nil && (!sc.query.States || !entry.State.IsShort()) {
		entry.State = nil
	}
	return nil
}

// foreignIf says that a value which could not be decoded is somebody else's.
func foreignIf(err error, storeKey string) error {
	if err == nil {
		return nil
	}
	return &store.ForeignError{StoreKey: storeKey, Holds: err.Error()}
}

// describeLargeLogs asks the server about logs that are too large to fetch, all at
// once: the calls share pipelines.
func (sc *scan) describeLargeLogs(ctx context.Context, page []found, logs []int) error {
	errs := make([]error, len(logs))
	var asking goroutines.Group
	for n, i := range logs {
		f := &page[i]
		if f.err != nil {
			continue
		}
		asking.Go(func() {
			var decisions [1]store.Decision
			reqs := []store.Request{{Key: f.entry.Key, Limit: f.entry.Limit, Cost: 1}}
			err := sc.Decide(ctx, store.Peek, reqs, decisions[:])
			f.entry.Decision, f.entry.UsedUnknown = decisions[0], false
			if errors.Is(err, store.ErrForeign) {
				f.err = err
			} else {
				errs[n] = err
			}
		})
	}
	return errors.Join(append(errs, asking.Wait())...)
}

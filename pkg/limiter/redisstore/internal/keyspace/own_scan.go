package keyspace

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/panics"
	redisserver "github.com/limitctl/limitctl/internal/redis"
	"github.com/limitctl/limitctl/lua"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/layouts"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// ownScan is a scan for limits of limitctl.
type ownScan struct {
	*scan
	own *Own
}

// chosen is a key that a query selects, before it is read.
type chosen struct {
	key      store.Key
	storeKey string
	err      error // why it is no limit, if its name says so
}

// Scan implements [admin.Keyspace] with SCAN on the server, on every master
// of a Cluster at once, and batched reads. An exact subject is looked for in its
// slot of a Cluster alone.
func (o *Own) Scan(ctx context.Context, q admin.Query) iter.Seq2[admin.Entry, error] {
	return func(yield func(admin.Entry, error) bool) {
		sc := &ownScan{scan: o.newScan(q), own: o}
		sc.run(ctx, yield, sc.readAll, o.Servers.NewSeen().First)
	}
}

func (sc *ownScan) readAll(ctx context.Context) error {
	if sc.query.Keys != nil {
		return sc.readKeys(ctx)
	}
	keys := redisserver.Scan[chosen]{Servers: sc.Servers, Match: sc.Own.Glob(sc.query.Subjects, sc.query.Names),
		Select: sc.selects, Known: sc.known,
		Read: func(ctx context.Context, p redisserver.Page[chosen]) error {
			return sc.readAndSend(ctx, p.Server, p.Keys, int64(p.Looked))
		}}
	if sc.query.Foreign {
		keys.Match = store.EscapeGlob(string(sc.Own)) + ":*"
	} else if subject, exact := sc.query.Subjects.Exact(); exact {
		return keys.Tag(ctx, subject)
	}
	return keys.All(ctx)
}

// selects reports whether the query selects a key.
func (sc *ownScan) selects(storeKey string) (chosen, bool) {
	key, ok := sc.Own.Match(storeKey)
	c := chosen{key: key, storeKey: storeKey}
	if !ok && sc.query.Foreign {
		c.key.Subject, ok = strings.CutPrefix(storeKey, string(sc.Own)+":")
		c.err = &store.ForeignError{StoreKey: storeKey} // what it holds comes later
	}
	return c, ok && sc.query.Selects(c.key)
}

// readKeys looks at exactly the query's keys.
func (sc *ownScan) readKeys(ctx context.Context) error {
	keys := sc.query.Keys
	if err := validate(keys); err != nil {
		return err
	}
	if err := sc.known(ctx, int64(len(keys))); err != nil {
		return err
	}
	storeKeys := sc.own.storeKeys(keys)
	return sc.readExactly(ctx, storeKeys, func(server redis.Cmdable, batch []int) error {
		selected := make([]chosen, len(batch))
		for n, i := range batch {
			selected[n] = chosen{key: keys[i], storeKey: storeKeys[i]}
		}
		return sc.readAndSend(ctx, server, selected, int64(len(batch)))
	})
}

// readAndSend reads keys, and sends a batch of them.
func (sc *ownScan) readAndSend(ctx context.Context, server redis.Cmdable, selected []chosen, looked int64) error {
	return sendBatch(ctx, sc.scan, server, selected, looked, func(some []chosen, _ func([]found) error) error {
		memory := sc.memory(len(some))
		read, err := sc.read(ctx, server, some, memory)
		if err == nil && sc.query.Records {
			read, err = sc.sendLogs(ctx, read)
		}
		if err != nil {
			return err
		}
		return sc.send(ctx, batch{found: read, memory: memory})
	})
}

// sendLogs fetches the records of the large logs among what was read, and sends them. It
// holds only a few at a time. It returns the others, in the place of read.
func (sc *ownScan) sendLogs(ctx context.Context, read []found) (others []found, err error) {
	var logs []found
	others = read[:0]
	for i := range read {
		if f := &read[i]; f.err == nil && f.entry.Record.Value == nil {
			logs = append(logs, *f)
		} else {
			others = append(others, *f)
		}
	}
	for len(logs) > 0 {
		n := perExchange(len(logs), func(i int) int {
			return int(logs[i].entry.Limit.MostRecordBytes(logs[i].entry.Used))
		})
		if err := sc.exportLogs(ctx, logs[:n]); err != nil {
			return nil, err
		}
		if err := sc.send(ctx, batch{found: dropUnused(logs[:n])}); err != nil {
			return nil, err
		}
		logs = logs[n:]
	}
	return others, nil
}

// exportLogs fetches large logs.
func (sc *ownScan) exportLogs(ctx context.Context, logs []found) error {
	keys := make([]store.Key, len(logs))
	at := make(map[store.Key]int, len(logs))
	for i := range logs {
		keys[i], at[logs[i].entry.Key] = logs[i].entry.Key, i
	}
	records, err := sc.own.export(ctx, keys)
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

// read describes the selected keys, in one round trip and another for the large
// logs among them, whose records it does not have. It leaves out those that are gone or
// unused. Those that went to another master before they could be read, the Cluster's
// client finds.
func (sc *ownScan) read(ctx context.Context, server redis.Cmdable, selected []chosen, memory *readMemory) ([]found, error) {
	r := &reader{keys: sc.keys, texts: firstBytes, dumps: sc.query.Records, sizes: sc.query.Bytes, server: server,
		stride: sc.stride(server)}
	values, all := memory.values, make([]*heldValue, len(selected))
	for i := range selected {
		values[i].StoreKey = selected[i].storeKey
		all[i] = &values[i]
	}
	moved, err := r.readFrom(ctx, server, all)
	if err == nil && sc.IsCluster() {
		err = r.follow(ctx, moved)
	}
	if err != nil {
		return nil, err
	}
	kept := memory.kept
	var largeLogs []int // in kept
	for i := range selected {
		held := &values[i]
		f := found{admin.Entry{Key: selected[i].key, StoreKey: selected[i].storeKey, Bytes: held.bytes}, selected[i].err}
		switch {
		case held.Type == layouts.NoValue: // it expired since the scan
			continue
		case held.Type != layouts.StringValue:
			f.err = &store.ForeignError{StoreKey: f.entry.StoreKey} // what it holds comes later
		case f.err != nil: // no limit has the key
			f.err = &store.ForeignError{StoreKey: f.entry.StoreKey, Holds: holdsText(&held.Value)}
		default:
			f.err = sc.entry(&f.entry, held)
			switch {
			case f.entry.UsedUnknown:
				largeLogs = append(largeLogs, len(kept))
			case sc.query.Records:
				f.entry.Record = admin.Record{Key: f.entry.Key, Value: held.Text, Expires: held.expires}
			}
		}
		kept = append(kept, f)
	}
	err = sc.describeLargeLogs(ctx, kept, largeLogs)
	sc.nameTypes(ctx, server, kept)
	return dropUnused(kept), err
}

// dropUnused leaves out keys of which nothing is in use any more.
func dropUnused(read []found) []found {
	return slices.DeleteFunc(read, func(f found) bool { return f.err == nil && isUnused(f.entry) })
}

// entry fills in what the first bytes of a value say about its key. Of a large log
// they tell only the limit.
func (sc *ownScan) entry(entry *admin.Entry, value *heldValue) error {
	held := admin.Held{StoreKey: entry.StoreKey, Text: value.Text, Length: value.Length, TTL: value.TTL}
	if len(value.Text) >= firstBytes {
		held.Length = int64(store.MaxRecordSize) // at most; the server is asked about the log
	}
	described, err := sc.Own.Entry(&sc.query, entry.Key, &held, sc.instant(value.at))
	if err != nil {
		entry.TTL = value.TTL
		return &store.ForeignError{StoreKey: entry.StoreKey, Holds: err.Error()}
	}
	described.Bytes = entry.Bytes
	*entry = described
	if entry.State != nil && (!sc.query.States || !entry.State.IsShort()) {
		entry.State = nil
	}
	return nil
}

// describeLargeLogs asks the server about logs that are too large to fetch, all at
// once: the calls share pipelines.
func (sc *ownScan) describeLargeLogs(ctx context.Context, read []found, logs []int) error {
	errs := make([]error, len(logs))
	var asking panics.Group
	for n, i := range logs {
		f := &read[i]
		if f.err != nil {
			continue
		}
		asking.Go(func() {
			var decisions [1]store.Decision
			err := sc.peek(ctx, store.Request{Key: f.entry.Key, Limit: f.entry.Limit, Cost: 1}, decisions[:])
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

// peek asks the server what it would decide.
func (sc *ownScan) peek(ctx context.Context, req store.Request, decisions []store.Decision) (err error) {
	if err := sc.Check(); err != nil {
		return err
	}
	w := sc.NewWork()
	if w.Reqs, err = store.NormalizeAll(w.Reqs[:0], store.Peek, []store.Request{req}); err != nil {
		return err
	}
	return sc.Decide(ctx, store.Peek, w, decisions)
}

// instant is what limits are decided by when the server's clock shows now.
func (k *keys) instant(now time.Time) store.Instant {
	if k.Clock != nil {
		now = k.Clock()
	}
	return store.InstantOf(now)
}

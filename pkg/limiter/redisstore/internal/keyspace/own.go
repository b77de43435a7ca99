package keyspace

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/lua"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/layouts"
	"github.com/limitctl/limitctl/pkg/limiter/redisstore/internal/lanes"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// own is limitctl's own layout: a record under one key. Besides what other layouts can do, its keys can be adjusted;
// see [Own].
type own struct{ *lanes.Sender }

// recordKind is what the scripts call the kind of a key that holds a record.
const recordKind = "record"

// headBytes is how much of each value a scan reads at first. That is the whole record, except of a large log.
const headBytes = lua.HeadSize

// mostRecord is how much is read of a large one: a byte more than it can have.
const mostRecord = int64(store.MaxRecordSize) + 1

// glob implements layout. An exact subject is looked for in its slot of a Cluster alone.
func (o own) glob(q *admin.Query) (glob, tag string) {
	if q.Foreign {
		return store.EscapeGlob(string(o.Own)) + ":*", ""
	}
	tag, _ = q.Subjects.Exact()
	return o.Own.Glob(q.Subjects, q.Names), tag
}

func (o own) choose(storeKey string, q *admin.Query) (chosen, bool) {
	c := chosen{storeKey: storeKey}
	var ok bool
	if c.key, ok = o.Own.Match(storeKey); !ok && q.Foreign {
		c.key.Subject, ok = strings.CutPrefix(storeKey, string(o.Own)+":")
		c.foreign = true
	}
	return c, ok && q.Selects(c.key)
}

func (o own) listed(q *admin.Query) (all []chosen, isListed bool, err error) {
	all = make([]chosen, len(q.Keys))
	for i, key := range q.Keys {
		if err := validate(key); err != nil {
			return nil, false, err
		}
		all[i] = chosen{storeKey: o.Own.StoreKey(key), key: key}
	}
	return all, q.Keys != nil, nil
}

// validate reports a key that is not one of a limit.
func validate(key store.Key) error {
	if err := key.Validate(); err != nil {
		return err
	}
	if key.Name == "" {
		return store.Invalidf("key %q has no name; say which of its limits is meant", key.Subject)
	}
	return nil
}

// read implements layout, in one round trip. Large logs come in further ones, a few at a time. It leaves out keys that
// are gone or unused.
func (o own) read(ctx context.Context, sc *scan, server redis.Cmdable, some []chosen, give func([]found) error) error {
	r := sc.reader(server)
	r.head, r.mostText, r.mostRead, r.onlyText = headBytes, mostRecord, mostRecord, true
	list := values.Get().(*[]held)
	defer func() {
		clear(*list)
		values.Put(list)
	}()
	*list = slices.Grow((*list)[:0], len(some))[:len(some)]
	values := *list
	if err := r.read(ctx, values, storeKeysOf(some)); err != nil {
		return err
	}
	all := slices.Grow((*founds.Get().(*[]found))[:0], len(some))
	var logs []*held // that are large, and what was chosen of them
	var ofLogs []*chosen
	for i := range some {
		c, value := &some[i], &values[i]
		f, isWhole := o.judge(sc, c, value)
		if !isWhole {
			logs, ofLogs = append(logs, value), append(ofLogs, c)
		} else if f.err != nil || !isUnused(f.entry) {
			all = append(all, f)
		}
	}
	if err := give(sc.firsts(all)); err != nil {
		return err
	}
	return r.readLarge(ctx, logs, func(first, end int) error {
		some := make([]found, 0, end-first)
		for i := first; i < end; i++ {
			if f, _ := o.judge(sc, ofLogs[i], logs[i]); f.err != nil || !isUnused(f.entry) {
				some = append(some, f)
			}
			logs[i].Text = nil // which may be large
		}
		return give(sc.firsts(some))
	})
}

// firsts leaves out what has come before.
func (sc *scan) firsts(all []found) []found {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	kept := all[:0]
	for i := range all {
		if storeKey := all[i].entry.StoreKey; sc.isFirst(storeKey, storeKey, nil) {
			kept = append(kept, all[i])
		}
	}
	return kept
}

// judge says what a value is. isWhole is false if it is a record that is longer than what was read.
func (o own) judge(sc *scan, c *chosen, value *held) (f found, isWhole bool) {
	f.entry = admin.Entry{Key: c.key, StoreKey: c.storeKey, Bytes: value.bytes, TTL: value.TTL}
	foreign := func(holds string) (found, bool) {
		f.err = &store.ForeignError{StoreKey: c.storeKey, Holds: holds}
		return f, true
	}
	switch {
	case value.Type == layouts.NoValue: // it expired since the scan, and is unused
		return f, true
	case value.Type == "":
		return foreign("a value of another type, which is not a limit record")
	case value.Type != layouts.StringValue:
		return foreign("a " + o.Servers.Redact(string(value.Type)) + ", which is not a limit record")
	case c.foreign:
		return foreign(holdsText(&value.Value))
	}
	record := admin.Held{StoreKey: c.storeKey, Text: value.Text, Length: int64(len(value.Text)), TTL: value.TTL}
	if value.more {
		record.Length = int64(store.MaxRecordSize) // at most
	}
	entry, err := o.Own.Entry(&sc.query, c.key, &record, instant(o.Sender, value.at))
	if err != nil {
		return foreign(err.Error())
	}
	if entry.UsedUnknown {
		return f, false
	}
	entry.Bytes = value.bytes
	if sc.query.Records {
		entry.Record = admin.Record{Key: c.key, Value: value.Text, Expires: value.expires}
	}
	if entry.State != nil && (!sc.query.States || !entry.State.IsShort()) {
		entry.State = nil
	}
	return found{entry: entry}, true
}

// holdsText says what a string is under a key that no limit has. Its first bytes were read.
func holdsText(value *layouts.Value) string {
	if _, err := store.DecodeRecordLimit(value.Text); err == nil {
		return "a limit record, under a key that no limit has"
	}
	if len(value.Text) >= headBytes {
		return fmt.Sprintf("at least %d bytes that are not a limit record", headBytes)
	}
	return fmt.Sprintf("%d bytes that are not a limit record", len(value.Text))
}

// instant is what limits are decided by when the server's clock shows now.
func instant(s *lanes.Sender, now time.Time) store.Instant {
	if s.Clock != nil {
		now = s.Clock()
	}
	return store.InstantOf(now)
}

func (o own) members(all []admin.Member, r *admin.Record) ([]admin.Member, error) {
	m := admin.Member{StoreKey: o.Own.StoreKey(r.Key), Type: recordKind, Dump: r.Value, Expires: r.Expires}
	return append(all, m), validate(r.Key)
}

// sound implements layout. If somebody removed the key's expiry, it is when the record's units are back, because no
// record stays for ever.
func (o own) sound(all []admin.Member, r *admin.Record) ([]admin.Member, error) {
	if _, err := r.Decode(); err != nil {
		return nil, err
	}
	all, err := o.members(all, r)
	if r.Expires.IsZero() {
		state, _ := r.Decode()
		// whole ms, rounded up
		all[len(all)-1].Expires = state.UnusedAt(state.Time).Time().Add(time.Millisecond - time.Microsecond)
	}
	return all, err
}

func (o own) record(r admin.Record, members []admin.Member) admin.Record {
	return admin.Record{Key: r.Key, Value: members[0].Dump, Expires: members[0].Expires}
}

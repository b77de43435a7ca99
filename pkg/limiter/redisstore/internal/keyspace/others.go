package keyspace

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/layouts"
	"github.com/limitctl/limitctl/pkg/limiter/redisstore/internal/lanes"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// others is the layouts of other limiters, as far as the sources know them.
type others struct {
	*lanes.Sender
	sources layouts.Sources
}

// isBeside reports whether a store key is of what limitctl keeps with its limits.
func (o *others) isBeside(storeKey string) bool {
	return strings.HasPrefix(storeKey, string(o.Own)+"!")
}

func (o *others) glob(q *admin.Query) (glob, tag string) { return o.sources.Glob(q.Subjects), "" }

func (o *others) choose(storeKey string, q *admin.Query) (chosen, bool) {
	look := o.sources.Look(storeKey, q)
	return chosen{storeKey: storeKey, look: look}, look != nil && !o.isBeside(storeKey)
}

// listed implements layout: a key does not say its store key.
func (o *others) listed(*admin.Query) (all []chosen, isListed bool, err error) {
	return nil, false, nil
}

// read implements layout. If what the looks need is much, it reads it in parts.
func (o *others) read(ctx context.Context, sc *scan, server redis.Cmdable, some []chosen,
	give func([]found) error) error {
	found, err := o.readOnce(ctx, sc, server, some)
	if errors.Is(err, errMuch) {
		middle := len(some) / 2
		if err := o.read(ctx, sc, server, some[:middle], give); err != nil {
			return err
		}
		return o.read(ctx, sc, server, some[middle:], give)
	}
	if err != nil {
		return err
	}
	clear(some) // the values that the looks hold would else stay until the whole batch is read
	return give(found)
}

// readOnce is read in one go. The error is errMuch if that is too much for several looks.
func (o *others) readOnce(ctx context.Context, sc *scan, server redis.Cmdable, some []chosen) (all []found, err error) {
	r := sc.reader(server)
	r.several = len(some) > 1
	some = slices.Clone(some)
	sc.mu.Lock()
	// found with others before
	some = slices.DeleteFunc(some, func(c chosen) bool { return sc.families.Has(c.storeKey) })
	sc.mu.Unlock()
	values := map[string]*held{}
	// Which keys belong together can depend on the server's time, which is known when they are read.
	const turns = 3
	for range turns {
		var storeKeys []string
		for i := range some {
			at := r.now
			if value := values[some[i].storeKey]; value != nil && !value.at.IsZero() {
				at = value.at
			}
			storeKeys = append(storeKeys, some[i].look.StoreKeys(instant(o.Sender, at))...)
		}
		if added, err := r.addNew(ctx, values, storeKeys); err != nil {
			return nil, err
		} else if !added {
			break
		}
	}
	sc.mu.Lock()
	defer sc.mu.Unlock()
	for i := range some {
		entries, err := judge(sc, some[i].look, values)
		if err != nil {
			all = append(all, found{admin.Entry{StoreKey: some[i].storeKey}, err})
			continue
		}
		for j := range entries {
			all = append(all, found{entries[j], nil})
		}
	}
	return all, nil
}

// judge says what the values of a look are.
func judge(sc *scan, look *layouts.Look, values map[string]*held) ([]admin.Entry, error) {
	tooLarge := (*held)(nil)
	entries, principal, err := look.Judge(func(storeKey string) layouts.Value {
		value := values[storeKey]
		if value == nil { // the clock has turned once more
			return layouts.Value{StoreKey: storeKey, Type: layouts.NoValue}
		}
		if value.tooLarge != "" && tooLarge == nil {
			tooLarge = value
		}
		return value.Value
	})
	if unsure := (*layouts.UnsureError)(nil); tooLarge != nil && !errors.As(err, &unsure) &&
		(err != nil || len(entries) > 0) {
		entries, err = nil, &store.ForeignError{StoreKey: tooLarge.StoreKey, Holds: tooLarge.tooLarge}
	}
	if len(entries) == 0 && err == nil || !sc.isFirst(look.StoreKey, principal, entries) {
		return nil, nil
	}
	for i := range entries {
		e := &entries[i]
		for j := range e.Record.Members {
			member := &e.Record.Members[j]
			value := values[member.StoreKey]
			member.Expires = value.expires
			e.Bytes += value.bytes / int64(len(entries))
			if sc.query.Records {
				member.Dump = value.kept()
			}
		}
	}
	return slices.DeleteFunc(entries, isUnused), err
}

func (o *others) members(all []admin.Member, r *admin.Record) ([]admin.Member, error) {
	if len(r.Members) == 0 {
		return nil, store.Invalidf("the record of key %q names no store keys", r.Key.Subject)
	}
	return append(all, r.Members...), nil
}

// sound implements layout. Records are often read from a file, which anybody may have edited.
func (o *others) sound(all []admin.Member, r *admin.Record) ([]admin.Member, error) {
	if err := r.Check(); err != nil {
		return nil, err
	}
	for i := range r.Members {
		if err := o.checkMember(&r.Members[i]); err != nil {
			return nil, err
		}
	}
	return o.members(all, r)
}

// checkMember reports, as a [store.ErrInvalid], what makes a member unfit to be imported.
func (o *others) checkMember(m *admin.Member) error {
	isText := m.Type == string(layouts.StringValue)
	if !soundDump(m.Dump) || (m.Dump[0] == dumpString) != isText || m.Type == recordKind ||
		strings.ContainsAny(m.Type, " +") {
		return store.Invalidf("the value of key %q is damaged in the backup", m.StoreKey)
	}
	text, _ := dumpedText(m.Dump)
	value := layouts.Value{StoreKey: m.StoreKey, Type: layouts.ValueType(m.Type), Text: text}
	if o.isBeside(m.StoreKey) || layouts.IsOwn(&value) {
		return store.Invalidf("key %q is limitctl's own, and not another limiter's as the backup says", m.StoreKey)
	}
	return nil
}

func (o *others) record(r admin.Record, members []admin.Member) admin.Record {
	r.Members = members
	return r
}

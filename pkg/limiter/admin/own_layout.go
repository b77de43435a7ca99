package admin

import (
	"errors"
	"strings"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// OwnLayout is the layout of limitctl's own limits: a record, as
// [store.State.AppendRecord] writes it, under "<prefix>:{<subject>}:<name>".
//
// Its value is the prefix: OwnLayout("rl").
type OwnLayout string

// StoreKey returns the store key of k. The subject is the Redis Cluster hash tag, so
// that all limits of a subject share a slot.
func (l OwnLayout) StoreKey(k store.Key) string {
	return string(l) + ":{" + k.Subject + "}:" + k.Name
}

// Glob returns a Redis glob that matches the store keys of all limits whose subject and name match. It can match
// others, too.
func (l OwnLayout) Glob(subjects, names store.Pattern) string {
	glob := store.EscapeGlob(string(l)) + ":{" + subjects.RedisGlob()
	switch {
	case !names.IsZero():
		return glob + "}:" + names.RedisGlob()
	case strings.HasSuffix(glob, "*") && !strings.HasSuffix(glob, `\*`):
		return glob // to look for what follows a "*" would cost Redis time for each key
	}
	return glob + "}:*"
}

// Match returns the key of a store key. ok is false if the store key is not one of a limit under the prefix.
func (l OwnLayout) Match(storeKey string) (k store.Key, ok bool) {
	rest, ok := strings.CutPrefix(storeKey, string(l))
	if ok {
		rest, ok = strings.CutPrefix(rest, ":{")
	}
	if !ok {
		return store.Key{}, false
	}
	k.Subject, k.Name, ok = strings.Cut(rest, "}:")
	if !ok || k.Name == "" || k.Validate() != nil {
		return store.Key{}, false
	}
	return k, true
}

// Held is what a store holds under the store key of a limit.
type Held struct {
	StoreKey string
	// Text is the value, or the beginning of a long one, whose length is Length.
	Text   []byte
	Length int64 // in bytes
	// TTL is how long the store keeps the value; negative if for ever.
	TTL time.Duration
}

// errTooLong is the error about a value that is longer than any record.
var errTooLong = errors.New("more bytes than any record has")

// Entry returns the entry of key for q, from held at now. If held has only the beginning of a long record, which
// must include its header, the entry has the limit but not the usage. The error says what is wrong with the value,
// for [store.ForeignError].Holds.
func (l OwnLayout) Entry(q *Query, key store.Key, held *Held, now store.Instant) (Entry, error) {
	switch {
	case held.Length > int64(store.MaxRecordSize):
		return Entry{}, errTooLong
	case held.Length > int64(len(held.Text)):
		limit, err := store.DecodeRecordLimit(held.Text)
		if err != nil {
			return Entry{}, err
		}
		entry := Entry{Key: key, StoreKey: held.StoreKey, Limit: limit, UsedUnknown: true, TTL: held.TTL}
		q.describe(&entry, now)
		return entry, nil
	}
	var state store.State
	if err := state.DecodeRecord(held.Text); err != nil {
		return Entry{}, err
	}
	entry := NewEntry(q, key, held.StoreKey, &state, now)
	entry.TTL = held.TTL // as in the store, where somebody may have changed it
	return entry, nil
}

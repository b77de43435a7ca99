package limiter

import (
	"errors"
	"strings"
	"time"
)

// Layout is how one rate limiter keeps its limits in a store: which keys are its own,
// and what their values mean. [OwnLayout] is limitctl's.
//
// A layout is a page of pure functions. It reads nothing itself: a store asks it which
// keys to read, and gives it what they held.
type Layout interface {
	// Glob returns a glob in the form of Redis that matches the store keys of all
	// limits whose subject and name match. It may match others, too.
	Glob(subjects, names Pattern) string
	// Match returns the key that a store key belongs to. ok is false for a store key
	// that this limiter cannot have made. Where only the value says who is limited, the
	// key has no Subject.
	Match(storeKey string) (key Key, ok bool)
	// Together returns the store keys that are to be read together with storeKey, which
	// matched, in the order that Decode expects their values in: those of a counter and
	// its timer, or of the window at now and the one before. It is nil for a store key
	// that says everything by itself.
	Together(storeKey string, now Instant) []string
	// Decode appends the entries that the values say something about to buf: usually
	// one, none if nothing is in use, several if a value holds several limits. What the
	// values and found.Limit do not tell is not known in the entry (see [Entry]). The
	// error says what is wrong with the values, for [ForeignError].Holds.
	Decode(buf []Entry, found *Found) ([]Entry, error)
}

// Found is what a store holds of the limits of one key.
type Found struct {
	Key Key // as [Layout.Match] says
	// Values are those of the store keys together, or of the one that stands alone.
	// Those that are not there have [NoValue].
	Values []Value
	// Now is what the store's clock showed when it was read.
	Now Instant
	// Limit is what an operator says about the limit, for layouts whose values do not
	// say all of it. What is zero is not said.
	Limit Limit
}

// ValueType says what kind of value a store key has.
type ValueType uint8

// The types of values that limiters are known to use.
const (
	NoValue ValueType = iota // the store key is not there
	StringValue
	HashValue
	ListValue
	SetValue
	SortedSetValue
)

// Value is what a store holds under one store key.
type Value struct {
	StoreKey string
	Type     ValueType
	// Text is a string, or the beginning of one: Length says how long it is.
	Text []byte
	// Members are the fields of a hash, or the members of a list, set or sorted set, in
	// their order, or the first of them: Length says how many there are.
	Members []Member
	// Length is the whole length of Text in bytes, or the number of members.
	Length int64
	// TTL is how long the store keeps the value; negative if for ever.
	TTL time.Duration
}

// Member is a part of a value that is not a string.
type Member struct {
	Name  string  // a hash's field, or the member itself
	Text  string  // of a hash's field
	Score float64 // of a sorted set's member
}

// OwnLayout is the layout of limitctl's own limits: a record, as
// [State.AppendRecord] writes it, under "<prefix>:{<subject>}:<name>".
//
// It is written as the prefix: OwnLayout("rl").
type OwnLayout string

// StoreKey returns the store key of k. The subject is the Redis Cluster hash tag, so
// that all limits of a subject share a slot.
func (l OwnLayout) StoreKey(k Key) string {
	return string(l) + ":{" + k.Subject + "}:" + k.Name
}

// Glob implements [Layout].
func (l OwnLayout) Glob(subjects, names Pattern) string {
	name := "*"
	if !names.IsZero() {
		name = names.RedisGlob()
	}
	return EscapeGlob(string(l)) + ":{" + subjects.RedisGlob() + "}:" + name
}

// Match implements [Layout].
func (l OwnLayout) Match(storeKey string) (k Key, ok bool) {
	rest, ok := strings.CutPrefix(storeKey, string(l))
	if ok {
		rest, ok = strings.CutPrefix(rest, ":{")
	}
	if !ok {
		return Key{}, false
	}
	k.Subject, k.Name, ok = strings.Cut(rest, "}:")
	if !ok || k.Name == "" || k.Validate() != nil {
		return Key{}, false
	}
	return k, true
}

// Together implements [Layout]: a record says everything by itself.
func (OwnLayout) Together(string, Instant) []string { return nil }

// errTooLong says what is wrong with a value that is longer than any record.
var errTooLong = errors.New("more bytes than any record has")

// Decode implements [Layout]. From the beginning of a long record, which must have its
// header, it tells the limit, and not what is used of it.
func (l OwnLayout) Decode(buf []Entry, found *Found) ([]Entry, error) {
	value := &found.Values[0]
	switch {
	case value.Type == NoValue:
		return buf, nil
	case value.Type != StringValue:
		return buf, errors.New("a value that is not a string, and so not a limit record")
	case value.Length > int64(MaxRecordSize):
		return buf, errTooLong
	case value.Length > int64(len(value.Text)):
		limit, err := DecodeRecordLimit(value.Text)
		if err != nil {
			return buf, err
		}
		return append(buf, Entry{Key: found.Key, StoreKey: value.StoreKey, Limit: limit, UsedUnknown: true, TTL: value.TTL}), nil
	}
	var state State
	if err := state.DecodeRecord(value.Text); err != nil {
		return buf, err
	}
	entry := NewEntry(found.Key, value.StoreKey, &state, found.Now)
	entry.TTL = value.TTL // as the store has it, which somebody may have changed
	return append(buf, entry), nil
}

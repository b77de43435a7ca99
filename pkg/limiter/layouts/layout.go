// Package layouts knows how other rate limiters keep their limits in Redis: which keys are theirs, which belong
// together, and what the values mean at an instant.
//
// A limiter's [Layout] is a row of a table, and never calls a server. A store asks it which keys to read, and passes
// it their values; see redisstore.OtherLimiters. [All] lists the layouts.
//
// What neither a value nor an operator says stays unknown in the entry.
package layouts

import (
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Layout is how one rate limiter keeps its limits. Its functions are pure, and are called from several goroutines.
type Layout interface {
	// Info describes the layout to people.
	Info() Info
	// Match returns which limit a store key belongs to: its subject, as far as the key names it, and the name of the
	// layout, behind a slash with what distinguishes several limits, such as "kong/minute". ok is false for a key that
	// the limiter cannot have made. With asked an operator has named the layout for this key, so any prefix will do.
	Match(storeKey string, asked bool) (key store.Key, ok bool)
	// Together returns the store keys that have to be read to understand storeKey, which is among them, such as a
	// counter and its timer. The first names the entry, and is the same for all. limit is the known part of the limit,
	// or zero.
	Together(storeKey string, limit store.Limit, now store.Instant) []string
	// Decode interprets values, at least one of which exists. The error says what is wrong with a value that the
	// limiter cannot have written, such as "a list".
	Decode(found *Found) (Reading, error)
}

// decode is Decode of a layout, for values that can be gone by now.
func decode(layout Layout, found *Found) (Reading, error) {
	if !isThere(found.Values) {
		return Reading{}, nil
	}
	return layout.Decode(found)
}

// Info describes a layout to people.
type Info struct {
	// Name is what --layout takes.
	Name string
	// Writer is what writes such keys: libraries or products, and their versions.
	Writer string
	// Example is a store key.
	Example string
	// Prefixes are what store keys usually begin with; nil if that can be anything.
	Prefixes []string
	// Needs is what an operator must give so that everything is known: "nothing", "the limit", "the count", "the
	// limit and the burst".
	Needs string
	// Beyond is what deleting the keys does not reach, in a sentence; empty if there is nothing.
	Beyond string
}

// Found is what a store holds of one limit.
type Found struct {
	// StoreKey is the one that was found, and Key the result of [Layout.Match] for it.
	StoreKey string
	Key      store.Key
	// Values are those of the store keys that [Layout.Together] named, in its order. Those that are not there have
	// the type [NoValue].
	Values []Value
	// Now is what the server's clock showed just before the values were read.
	Now store.Instant
	// Limit is the part of the limit that an operator gives; zero is unknown. Without an algorithm it is the layout's.
	Limit store.Limit
}

// ValueType is the type of a value, as the command TYPE names it.
type ValueType string

// The types of values.
const (
	NoValue        ValueType = "none" // the store key is not there
	StringValue    ValueType = "string"
	HashValue      ValueType = "hash"
	ListValue      ValueType = "list"
	SetValue       ValueType = "set"
	SortedSetValue ValueType = "zset"
)

// MostText and MostMembers are how much of a value is read.
const (
	MostText    = 128 << 10
	MostMembers = 10_000
)

// Value is what a store holds under one store key.
type Value struct {
	StoreKey string
	Type     ValueType
	// Text is a string, or its first [MostText] bytes: Length says how long it is.
	Text []byte
	// Members are all fields of a hash, or the first members of a list, or those of a sorted set with the highest
	// scores, in ascending order: at most [MostMembers]. Those of a set are not read.
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

// Field returns the text of a hash's field, and whether there is one.
func (v *Value) Field(name string) (text string, has bool) {
	for i := range v.Members {
		if v.Members[i].Name == name {
			return v.Members[i].Text, true
		}
	}
	return "", false
}

// Reading is the meaning of values.
type Reading struct {
	// Entries are the limits: usually one, none if nothing is in use. What is zero the caller fills in.
	Entries []admin.Entry
	// Certain: this can hardly be anything but the limiter's. Others count as its only if an operator named the layout.
	Certain bool
}

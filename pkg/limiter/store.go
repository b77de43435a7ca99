package limiter

import (
	"context"
	"iter"
	"time"
)

// Store keeps the state of keys and decides against it, by its own clock. It is
// safe for concurrent use. What wraps a store is a Store again.
type Store interface {
	// Decide answers op on reqs, at one instant, into decisions, which must be
	// of the same length. A Take charges all requests if every decision is
	// allowed and else none. A denial is no error; the errors are those of
	// this package, and after one the decisions mean nothing.
	Decide(ctx context.Context, op Op, reqs []Request, decisions []Decision) error
	// Close releases what the store holds. Its state stays, except in memory.
	Close() error
}

// Keyspace is what an operator needs of a store besides decisions. The stores
// of this module all have it.
type Keyspace interface {
	// Scan yields every key in use whose subject p selects, each once, in no
	// particular order. A [ForeignError] concerns one key, whose Entry has
	// only its names, and the scan goes on; any other error ends it. Scan
	// writes nothing.
	Scan(ctx context.Context, p Pattern) iter.Seq2[Entry, error]
	// Delete makes keys unused and returns how many were in use. Values that
	// limitctl did not write stay, each with a [ForeignError] among the
	// joined errors; any other error may have come after some were deleted.
	Delete(ctx context.Context, keys ...Key) (deleted int, err error)
}

// Entry is the state of one key as Scan finds it.
type Entry struct {
	Key      Key
	StoreKey string // the key as the store knows it
	Limit    Limit  // as last applied
	// Decision is what a peek of one unit under Limit would answer.
	Decision Decision
	// TTL is how long the store keeps the key; negative if for ever, which
	// only somebody else can have brought about.
	TTL time.Duration
}

// NewEntry describes the state s of key at now, for a store that lets the key
// lapse when it is unused.
func NewEntry(key Key, storeKey string, s *State, now Instant) Entry {
	reqs, decisions := [1]Request{{Key: key, Limit: s.Limit, Cost: 1}}, [1]Decision{}
	Decide(Peek, reqs[:], []*State{s}, decisions[:], now)
	return Entry{Key: key, StoreKey: storeKey, Limit: s.Limit, Decision: decisions[0], TTL: decisions[0].ResetAfter}
}

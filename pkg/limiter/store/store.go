package store

import "context"

// Store keeps the state of keys and decides against it, by its own clock. It is
// safe for concurrent use. What wraps a store is a Store again.
type Store interface {
	// Decide answers op on reqs, at one instant, into decisions, which must be
	// of the same length. A Take charges all requests if every decision is
	// allowed and else none. A denial is not an error; the errors are those of
	// this package, and after one the decisions mean nothing. It returns soon after ctx has ended.
	Decide(ctx context.Context, op Op, reqs []Request, decisions []Decision) error
	// Close releases what the store holds. Its state stays, except in memory.
	Close() error
}

// Parted is a [Store] in parts that can fail by themselves, such as the masters of a Redis
// Cluster. The breaker of a limiter then counts for each part by itself. It finds the parts also through
// wrappers that were made with [Wrap].
type Parted interface {
	Store
	// Part names the part that decides about key. It is empty if the store is in one piece
	// or does not know its parts yet. It is asked before each call, by many at once, so it
	// answers from memory. The key may be invalid.
	Part(key Key) string
}

// PartError is an error of one part of a [Parted] store. It counts for the breaker of that
// part alone.
type PartError struct {
	// Part is the name that [Parted] has for it. It is empty if the error says nothing
	// about any part.
	Part string
	// Err is the error.
	Err error
}

// Error returns the text of e.Err, which names the part if a reader should know it.
func (e *PartError) Error() string { return e.Err.Error() }

// Unwrap returns e.Err.
func (e *PartError) Unwrap() error { return e.Err }

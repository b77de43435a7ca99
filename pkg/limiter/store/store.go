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

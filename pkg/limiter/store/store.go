// Package store is for authors of stores. Services decide with package limiter, and tools that work with keys
// use package admin besides.
//
// A [Store] keeps what is used under a [Key], which is a subject and the name of one of its limits, and decides a
// [Request] by its [Limit]. A [Decision] is the answer. A store of the two methods Decide and Close is enough;
// package storetest tests it by the laws. [NormalizeAll] checks requests, and [Decide] has the
// rules of all algorithms on a [State], which an embedded store reads before and writes after.
//
// # More than deciding
//
// A store may have more than the two methods: shards that fail by themselves ([Sharded]), and what package admin
// has for operators, such as a keyspace, overrides, denials, a journal and an identity. [As] finds what a store has.
//
// # Wrappers
//
// What wraps a Store is a Store again. A wrapper of your own is a struct that embeds a Store and has its own
// Decide. Return it through [Wrap], so that As finds what the store inside has. The option limiter.Around puts it
// in its place among those that limiter.New makes.
//
// # Errors
//
// A denial is a [Decision] and no error. After an error nothing was decided: [ErrInvalid] (and
// [ErrNeverFits]), [ErrUnavailable], [ErrOutcomeUnknown], [ErrGaveUp], [ErrRefused], [ErrForeign],
// [ErrUnknownToken] and [ErrClosed] say what that means. [IsAway] is true for the second and the third.
package store

import "context"

// Store keeps the state of keys and decides against it, by its own clock. It is
// safe for concurrent use. What wraps a store is a Store again.
type Store interface {
	// Decide answers op on reqs, at one instant, into decisions, which must be of the same length. A Take charges
	// all requests if every decision is allowed, and otherwise none. A denial is not an error; the errors are those
	// of this package, and after an error the decisions have no meaning. It returns soon after ctx has ended.
	Decide(ctx context.Context, op Op, reqs []Request, decisions []Decision) error
	// Close releases the resources of the store. Its state stays, except in memory.
	Close() error
}

// Sharded is a [Store] in shards that can fail alone, such as the masters of a Redis Cluster. The breaker of a
// limiter then counts for each shard. It finds the shards also through wrappers that were made with [Wrap].
type Sharded interface {
	Store
	// Shard returns the name of the shard that decides about key. It is empty if the store has only one shard or
	// does not know its shards yet. Each call asks for it, and calls are concurrent, so it answers from memory. The
	// key may be invalid.
	Shard(key Key) string
}

// ShardError is an error of one shard of a [Sharded] store. It counts for the breaker of that shard only.
type ShardError struct {
	// Shard is the shard's name, as [Sharded] returns it. It is empty if the error is about no shard.
	Shard string
	// Err is the error.
	Err error
}

// Error returns the text of e.Err, which names the shard if a reader should know it.
func (e *ShardError) Error() string { return e.Err.Error() }

// Unwrap returns e.Err.
func (e *ShardError) Unwrap() error { return e.Err }

// BatchError is an error that calls share because a store sent them together, for example over a connection that was
// lost. It is one failure for a breaker, however many callers get it.
type BatchError struct {
	// Batch is a number that no other batch of the process has.
	Batch uint64
	// Err is the error.
	Err error
}

// Error returns the text of e.Err.
func (e *BatchError) Error() string { return e.Err.Error() }

// Unwrap returns e.Err.
func (e *BatchError) Unwrap() error { return e.Err }

// Package store is for authors of stores. Services decide with package limiter.
//
// A [Store] keeps what is used under a [Key], which is a subject and the name of one of its limits, and decides a
// [Request] by its [Limit]. A [Decision] is the answer. A store of the two methods Decide and Close is enough;
// package storetest tests it by the laws. [NormalizeAll] checks requests, and [Decide] has the
// rules of all algorithms on a [State], which an embedded store reads before and writes after.
//
// A store may have more: shards that fail by themselves ([Sharded]), and what package admin has for operators. [As]
// finds it. What wraps a Store, a struct that embeds one and has its own Decide, is returned through [Wrap]; the option
// limiter.Around puts it in its place.
//
// A denial is a [Decision] and no error. After an error nothing was decided: [ErrInvalid] (and
// [ErrNeverFits]), [ErrUnavailable], [ErrOutcomeUnknown], [ErrGaveUp], [ErrRefused], [ErrForeign],
// [ErrUnknownToken] and [ErrClosed] say what that means. [IsAway] is true for the second and the third.
package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

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
	// Shard returns the name of the shard that decides about key, which may be invalid; empty if there is only one or
	// none is known yet. Each call asks for it, and calls are concurrent, so it answers from memory.
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

// BatchError is an error that calls share because a store sent them together. It is one failure for a breaker.
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

// Wrap returns wrapper as a Store through which [As] finds what inner has, such as its keys. It panics if one of them
// is nil.
func Wrap(wrapper, inner Store) Store {
	if wrapper == nil || inner == nil {
		panic("store.Wrap: wrapper or inner is nil")
	}
	if w, wraps := wrapper.(*wrapped); wraps && w.inner == inner {
		return wrapper
	}
	return &wrapped{Store: wrapper, inner: inner}
}

// wrapped decides as Store does and says what that wraps.
type wrapped struct {
	Store
	inner Store
}

// Unwrap returns the store inside.
func (w *wrapped) Unwrap() Store { return w.inner }

// As returns store as a T, or the first store inside it that is one: the optional parts of a store.
func As[T any](store Store) (found T, has bool) {
	for store != nil {
		if found, has = store.(T); has {
			return found, true
		}
		switch s := store.(type) {
		case *wrapped:
			if found, has = s.Store.(T); has {
				return found, true
			}
			store = s.inner
		case interface{ Unwrap() Store }:
			store = s.Unwrap()
		default:
			return found, false
		}
	}
	return found, false
}

// WithBudget wraps store so that each of its calls takes at most budget. When that is over, the store is away
// ([IsAway]), and a failure policy decides. If the caller's own context has ended, the error is an [ErrGaveUp].
func WithBudget(store Store, budget time.Duration) Store {
	if store == nil {
		panic("store.WithBudget: store is nil")
	}
	return Wrap(&budgetStore{Store: store, budget: budget}, store)
}

type budgetStore struct {
	Store
	budget time.Duration
}

// Decide implements [Store].
func (s *budgetStore) Decide(ctx context.Context, op Op, reqs []Request, decisions []Decision) error {
	own := &budgetContext{caller: ctx, end: time.Now().Add(s.budget)}
	defer own.cancel()
	return s.Store.Decide(own, op, reqs, decisions)
}

// BudgetOf is for stores that bound their calls without a timer for each. Of a call by [WithBudget] it returns the
// caller's own context, and the instant from which the store counts as away. Otherwise caller is ctx.
func BudgetOf(ctx context.Context) (caller context.Context, end time.Time, limited bool) {
	if b, is := ctx.(*budgetContext); is {
		return b.caller, b.end, true
	}
	return ctx, time.Time{}, false
}

// budgetContext is a [BudgetContext] that starts a timer only if somebody waits for its end.
type budgetContext struct {
	caller context.Context
	end    time.Time
	once   sync.Once
	timed  context.Context // nil until somebody needs it
	stop   context.CancelFunc
}

// Deadline implements [context.Context].
func (b *budgetContext) Deadline() (time.Time, bool) {
	if own, limited := b.caller.Deadline(); limited && own.Before(b.end) {
		return own, true
	}
	return b.end, true
}

// Done implements [context.Context].
func (b *budgetContext) Done() <-chan struct{} { return b.context().Done() }

// Err implements [context.Context].
func (b *budgetContext) Err() error { return b.context().Err() }

// Value implements [context.Context]. The cause of an end is among the values.
func (b *budgetContext) Value(key any) any { return b.context().Value(key) }

// context returns the context that has a timer.
func (b *budgetContext) context() context.Context {
	b.once.Do(func() { b.timed, b.stop = context.WithDeadlineCause(b.caller, b.end, errBudget) })
	return b.timed
}

// cancel ends the context.
func (b *budgetContext) cancel() {
	b.once.Do(func() { b.timed, b.stop = ended, func() {} })
	b.stop()
}

var ended = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// BudgetContext returns a context for several calls of a store that may take at most budget together, such as those
// of an admin.Keyspace. Its end means that the store is away, unless ctx itself has ended.
func BudgetContext(ctx context.Context, budget time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, budget, errBudget)
}

// errBudget is the cause of contexts that end because a store's time is over.
var errBudget = errors.New("the store's time was over")

// GaveUp is for stores. It returns an [ErrGaveUp] with the reason if ctx has ended. It returns nil if ctx has not
// ended, or only because the budget of [WithBudget] is over: then the store is away.
func GaveUp(ctx context.Context) error {
	if deadline, limited := ctx.Deadline(); limited && ctx.Done() != nil && !time.Now().Before(deadline) {
		<-ctx.Done() // a connection can notice the deadline a moment before
	}
	if ctx.Err() == nil || errors.Is(context.Cause(ctx), errBudget) {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrGaveUp, ctx.Err())
}

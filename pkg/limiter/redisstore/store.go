// Package redisstore keeps limits in Redis (or Valkey, which speaks the same
// protocol) and decides them there, in one atomic script call by the server's
// clock; in a Cluster in one for each slot.
//
// It works with Redis 5 and later, on a single server or a Cluster, and needs no
// right to load scripts. What a user of it must be allowed is in docs/operations.md.
package redisstore

import (
	"context"
	"sync"
	"time"

	"github.com/limitctl/limitctl/internal/panics"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/redisstore/internal/keyspace"
	"github.com/limitctl/limitctl/pkg/limiter/redisstore/internal/lanes"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Store is a [store.Store] and an [admin.Keyspace] in Redis.
type Store struct {
	settings
	admin.Tables
	lanes      *lanes.Sender
	keys       *keyspace.Own
	closing    sync.Once
	closeErr   error
	givingBack background // takes that are being given back
}

// settings are what options change.
type settings struct {
	sending lanes.Settings
	secrets []string
	err     error // what is wrong with an option
}

// An Option changes how a Store is made.
type Option func(*settings)

// WithPrefix makes store keys begin with prefix instead of
// [store.DefaultPrefix].
func WithPrefix(prefix string) Option {
	return func(s *settings) { s.sending.Own = admin.OwnLayout(prefix) }
}

// WithClock decides by clock instead of the server's time, for tests and
// simulations in virtual time. Keys then expire an hour late, so that only
// clock decides what has lapsed.
func WithClock(clock func() time.Time) Option {
	return func(s *settings) {
		if s.sending.Clock = clock; clock == nil {
			s.err = store.Invalidf("the clock of the Redis store is nil")
		}
	}
}

// WithSecrets names texts that no error may hold, besides the password that the client
// logs in with, which the store knows: a server can repeat what it was ever sent.
func WithSecrets(secrets ...string) Option {
	return func(s *settings) { s.secrets = append(s.secrets, secrets...) }
}

// WithBudget bounds how long the store may take over one call. After that it is away,
// a [store.ErrUnavailable] or [store.ErrOutcomeUnknown], whatever time the caller
// still has. The default is [DefaultTimeout] for a store of [New], and the client's read time-out for
// one of [Open] or [Own], or 3 s where that has none. With a budget above the client's time-outs,
// such as a minute, these decide. A caller's own deadline is a [store.ErrGaveUp] instead.
func WithBudget(budget time.Duration) Option {
	return func(s *settings) {
		if s.sending.Budget = budget; budget < time.Millisecond && budget != 0 {
			s.err = store.Invalidf("the budget %s is too short; it is at least 1ms, or 0 for its default", budget)
		}
	}
}

// WithBatchObserver calls f with the number of calls in each exchange with a server; it is 1 for a
// call that is sent alone. Concurrent calls are merged, so a mean well above 1 says that callers
// wait for each other, which saves the server work. Many goroutines call f at once, so it must be
// quick. A panic in f is recovered.
func WithBatchObserver(f func(calls int)) Option {
	return func(s *settings) {
		if f == nil {
			s.err = store.Invalidf("the function of WithBatchObserver is nil")
		}
		s.sending.OnBatch = func(calls int) {
			var panicked error
			defer panics.Catch(&panicked)
			f(calls)
		}
	}
}

// Decide implements [store.Store]: one script call, one round trip, all at one
// instant. In a Cluster that holds for requests that share a slot, as those of one
// subject do; others are decided slot by slot, in the order given, and what was
// taken is given back once a later slot denies. Until then others can see it taken.
func (s *Store) Decide(ctx context.Context, op store.Op, reqs []store.Request, decisions []store.Decision) error {
	if err := s.lanes.Check(); err != nil {
		return err
	}
	return s.decideAny(ctx, op, reqs, decisions)
}

// decideAny is Decide for requests as they come.
func (s *Store) decideAny(ctx context.Context, op store.Op, reqs []store.Request, decisions []store.Decision) error {
	w := s.lanes.NewWork()
	var err error
	if w.Reqs, err = store.NormalizeAll(w.Reqs[:0], op, reqs); err != nil {
		return err
	}
	if err := store.CheckStored(w.Reqs); err != nil {
		return err
	}
	if s.lanes.SlotOf != nil && len(reqs) > 1 {
		if groups := groupBySlot(s.lanes.SlotOf, w.Reqs); len(groups) > 1 {
			if op == store.TakeUpTo {
				return store.Invalidf("a take of what fits needs subjects of one slot, not %q and %q; take from each by itself",
					reqs[groups[0][0]].Key.Subject, reqs[groups[1][0]].Key.Subject)
			}
			return s.decideAcrossSlots(ctx, op, groups, w.Reqs, decisions)
		}
	}
	return s.lanes.Decide(ctx, op, w, decisions)
}

// Send sends a command of the caller's own that changes something, on the store's client.
// Like a take it is sent once. verb is what the
// error, one of the limiter's, calls it; [store.ErrOutcomeUnknown] says that it
// may have been done.
func (s *Store) Send(ctx context.Context, verb string, words ...any) error {
	if err := s.lanes.Check(); err != nil {
		return err
	}
	if err := s.lanes.Process(ctx, words...); err != nil {
		return s.lanes.Explain(err, verb, true, nil)
	}
	return nil
}

// Shard implements [store.Sharded]: in a Cluster the shards are its masters, named by their
// addresses. It asks nobody and goes by what the client knows of the Cluster.
func (s *Store) Shard(key store.Key) string { return s.lanes.ShardOf(key.Subject) }

// Prefix returns what store keys begin with; see [WithPrefix].
func (s *Store) Prefix() string { return string(s.lanes.Own) }

// Package memorystore keeps limits in the memory of one process. It is the fastest store, for limits that need not
// be shared or survive the process, and good for tests, since its clock can be replaced.
package memorystore

import (
	"cmp"
	"context"
	"fmt"
	"hash/maphash"
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/limitctl/limitctl/internal/keystates"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// stripeCount lets callers on different keys work at once. It is 64 so that the set of locked stripes fits into one
// machine word.
const (
	stripeBits  = 6
	stripeCount = 1 << stripeBits
)

// Store is a [store.Store] and an [admin.Keyspace] in memory.
//
// It has no lock that all calls share, and starts no goroutine. Each call removes a few unused keys, so that the
// Store holds at most a small multiple of the keys in use.
type Store struct {
	admin.Tables
	operator
	layout  admin.OwnLayout
	clock   func() store.Instant
	seed    maphash.Seed
	unfit   error // what is wrong with an option
	closed  atomic.Bool
	stripes [stripeCount]stripe
	held    atomic.Int64 // keys in all stripes
	most    int64        // of them; 0 for no bound
	tokens  tokens
}

// An Option configures a Store.
type Option func(*Store)

// WithClock decides by clock instead of the clock of the process.
func WithClock(clock func() time.Time) Option {
	return func(s *Store) {
		if clock == nil {
			s.unfit = store.Invalidf("the clock of the memory store is nil")
			return
		}
		s.clock = func() store.Instant { return store.InstantOf(clock()) }
	}
}

// WithPrefix sets the prefix of the store keys that Scan shows.
func WithPrefix(prefix string) Option {
	return func(s *Store) {
		if err := store.ValidatePrefix(prefix); err != nil {
			s.unfit = err
		}
		s.layout = admin.OwnLayout(prefix)
	}
}

// New returns an empty Store. Each call of a Store with an option that is wrong fails with a [store.ErrInvalid].
func New(options ...Option) *Store {
	s := &Store{layout: store.DefaultPrefix, seed: maphash.MakeSeed(), clock: monotonicClock()}
	s.tokens.byToken.all = map[string]store.TokenRecord{}
	s.Tables, s.operator = admin.Tables{SideTable: newSide(s), Private: true},
		keystates.NewOperator(s.changeEach, false)
	for i, option := range options {
		if option == nil {
			s.unfit = store.Invalidf("option %d of %d of the memory store is nil", i+1, len(options))
			continue
		}
		option(s)
	}
	for i := range s.stripes {
		s.stripes[i].keys.all = map[store.Key]*entry{}
	}
	return s
}

// monotonicClock is the time at the start plus the monotonic time since, so that setting the system's clock changes
// no limit. It also costs about half of time.Now.
func monotonicClock() func() store.Instant {
	start := time.Now()
	startInstant := store.InstantOf(start)
	return func() store.Instant {
		return startInstant + store.Instant(time.Since(start)/time.Microsecond)
	}
}

// Len returns the number of keys in memory. Some of them may no longer be in use.
func (s *Store) Len() int { return int(s.held.Load()) }

// Close makes all later calls fail with a [store.ErrClosed]. The memory is freed with the Store.
func (s *Store) Close() error {
	s.closed.Store(true)
	return nil
}

// errClosed is the error of calls after Close.
var errClosed = fmt.Errorf("the memory store is %w", store.ErrClosed)

// check returns errClosed if s is closed, and an error if it was made wrongly.
func (s *Store) check() error {
	switch {
	case s.unfit != nil:
		return s.unfit
	case s.clock == nil:
		return store.Invalidf("the memory store is not made by New")
	case s.closed.Load():
		return errClosed
	}
	return nil
}

// Decide implements [store.Store]. A call of one request allocates nothing, unless its key is new or its log grows.
func (s *Store) Decide(ctx context.Context, op store.Op, reqs []store.Request, decisions []store.Decision) error {
	if err := s.check(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return cmp.Or(store.GaveUp(ctx), fmt.Errorf("%w: %w", store.ErrUnavailable, err))
	}
	if len(reqs) != 1 || op != store.Take && op != store.Peek || reqs[0].Token != "" || reqs[0].NotAfter != 0 {
		return s.decideAny(op, reqs, decisions)
	}
	if s.most == 0 {
		return s.decideOne(op, &reqs[0], decisions)
	}
	return s.withRoom(func() error { return s.decideOne(op, &reqs[0], decisions) })
}

// decideOne decides one request without a token.
func (s *Store) decideOne(op store.Op, req *store.Request, decisions []store.Decision) error {
	r := req
	if !req.HasDefaults() {
		own := *req
		own.SetDefaults()
		r = &own
	}
	in := &s.stripes[s.stripeOf(r.Key)]
	in.mu.Lock()
	defer in.mu.Unlock()
	// Read the clock under the lock, so that the decisions on a key have instants in their order. Otherwise one at
	// a window's end could say that it came before the window.
	now := s.clock()
	e := in.keys.all[r.Key]
	isNew := e == nil
	// An existing key was checked before, and so was its limit.
	if isNew || e.state.Limit != r.Limit || r.Cost < 1 || r.Leave < 0 || r.Cost > r.Capacity() {
		if err := r.Check(op); err != nil {
			return err
		}
		if isNew {
			e = new(entry)
		}
	}
	if store.DecideOne(op, r, &e.state, &decisions[0], now) {
		if isNew && !e.state.IsZero() && !s.reserve(1) {
			return errFull
		}
		e.expiresAt = now + store.Instant(decisions[0].ResetAfter/time.Microsecond)
		s.keep(in, r.Key, e, isNew)
		s.reclaim(in, isNew, now)
	}
	return nil
}

// change calls decide with the states of the keys of reqs, and stores what it changed. It may call decide again, if the
// first call found no room.
func (s *Store) change(reqs []store.Request, decide func(states []*store.State, now store.Instant) (
	changed bool, err error)) error {
	return s.withRoom(func() error { return s.changeNow(reqs, decide) })
}

func (s *Store) changeNow(reqs []store.Request, decide func([]*store.State, store.Instant) (
	changed bool, err error)) error {
	in := make([]*stripe, len(reqs))
	locked := uint64(0) // a bit for each stripe
	for i := range reqs {
		at := s.stripeOf(reqs[i].Key)
		in[i] = &s.stripes[at]
		locked |= 1 << at
	}
	// Locks are taken in one order, so that two calls cannot deadlock.
	for rest := locked; rest != 0; rest &= rest - 1 {
		s.stripes[bits.TrailingZeros64(rest)].mu.Lock()
	}
	defer func() {
		for rest := locked; rest != 0; rest &= rest - 1 {
			s.stripes[bits.TrailingZeros64(rest)].mu.Unlock()
		}
	}()
	entries, states := make([]*entry, len(reqs)), make([]*store.State, len(reqs))
	for i := range reqs {
		if entries[i] = in[i].keys.all[reqs[i].Key]; entries[i] != nil {
			states[i] = entries[i].state.Clone() // if there is no room, nothing must have changed
		} else {
			states[i] = new(store.State)
		}
	}
	now := s.clock()
	changed, err := decide(states, now)
	if err != nil || !changed {
		return err
	}
	added := 0
	for i := range states {
		if entries[i] == nil && !states[i].IsZero() {
			added++
		}
	}
	if !s.reserve(added) {
		return errFull
	}
	for i, e := range entries {
		isNew := e == nil
		if isNew {
			e = new(entry)
		}
		e.state, e.expiresAt = *states[i], states[i].UnusedAt(now)
		s.keep(in[i], reqs[i].Key, e, isNew)
	}
	for i := range in {
		s.reclaim(in[i], entries[i] == nil, now)
	}
	return nil
}

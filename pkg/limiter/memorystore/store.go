// Package memorystore keeps limits in the memory of one process. It is the fastest store, for limits that need not
// be shared or survive the process, and good for tests, since its clock can be replaced.
package memorystore

import (
	"cmp"
	"context"
	"fmt"
	"hash/maphash"
	"math/bits"
	"slices"
	"sync/atomic"
	"time"

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
	layout admin.OwnLayout
	clock  func() store.Instant
	seed   maphash.Seed
	unfit  error // what is wrong with an option
	closed atomic.Bool
	// The name that was hashed last.
	lastName   atomic.Pointer[hashedName]
	nameMisses atomic.Uint32
	stripes    [stripeCount]stripe
	bound      *bound // of the keys; nil for none
	tokens     tokens
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
	s.Tables = admin.Tables{SideTable: newSide(s), Private: true}
	for i, option := range options {
		if option == nil {
			s.unfit = store.Invalidf("option %d of %d of the memory store is nil", i+1, len(options))
			continue
		}
		option(s)
	}
	for i := range s.stripes {
		s.stripes[i].slots, s.stripes[i].bound = make([]slot, minSlots), s.bound
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
func (s *Store) Len() int {
	held := 0
	for i := range s.stripes {
		held += s.stripes[i].size()
	}
	return held
}

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
	switch isShort := len(reqs) == 1 && (op == store.Take || op == store.Peek) && reqs[0].Token == "" && reqs[0].NotAfter == 0; {
	case isShort && s.bound == nil:
		return s.decideOne(op, &reqs[0], decisions)
	case isShort:
		return s.withRoom(func() error { return s.decideOne(op, &reqs[0], decisions) })
	}
	return s.decideAny(op, reqs, decisions)
}

func (s *Store) decideOne(op store.Op, req *store.Request, decisions []store.Decision) error {
	r := req
	if !req.HasDefaults() {
		own := *req
		own.SetDefaults()
		r = &own
	}
	hash := s.hash(r.Key)
	stripe := s.stripeOf(hash)
	stripe.mu.Lock()
	defer stripe.mu.Unlock()
	// Read the clock under the lock, so that the decisions on a key have instants in their order. Otherwise one at
	// a window's end could say that it came before the window.
	now := s.clock()
	e := stripe.find(hash, r.Key)
	isNew := e == nil
	// An existing key was checked before, and so was its limit.
	if isNew || e.state.Limit != r.Limit || r.Cost < 1 || r.Leave < 0 || r.Cost > r.Capacity() {
		if err := r.Check(op); err != nil {
			return err
		}
		if isNew {
			e = &entry{key: r.Key}
		}
	}
	if store.DecideOne(op, r, &e.state, &decisions[0], now) {
		if isNew && !e.state.IsZero() && !s.bound.reserve(1) {
			return s.bound.full
		}
		e.expireAfter(decisions[0].ResetAfter, now)
		stripe.keep(hash, e, isNew)
		stripe.reclaim(isNew, now)
	}
	return nil
}

// expireAfter sets when e's state becomes equal to an unused one.
func (e *entry) expireAfter(d time.Duration, now store.Instant) {
	e.expiresAt = now + store.Instant(d/time.Microsecond)
}

// decideSeveral calls decide with reqs and their states, and stores what it changed. It may call decide again, if
// the first call found no room.
func (s *Store) decideSeveral(reqs []store.Request, decisions []store.Decision,
	decide func(states []*store.State, now store.Instant) (changed bool, err error)) error {
	return s.withRoom(func() error { return s.decideSeveralNow(reqs, decisions, decide) })
}

func (s *Store) decideSeveralNow(reqs []store.Request, decisions []store.Decision,
	decide func(states []*store.State, now store.Instant) (changed bool, err error)) error {
	hashes := make([]uint64, len(reqs))
	locked := uint64(0) // a bit for each stripe
	for i := range reqs {
		hashes[i] = s.hash(reqs[i].Key)
		locked |= 1 << stripeIndex(hashes[i])
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
	entries, isNew := make([]*entry, len(reqs)), make([]bool, len(reqs))
	states := make([]*store.State, len(reqs))
	for i := range reqs {
		entries[i] = s.stripeOf(hashes[i]).find(hashes[i], reqs[i].Key)
		if isNew[i] = entries[i] == nil; isNew[i] {
			entries[i] = &entry{key: reqs[i].Key}
		}
		states[i] = &entries[i].state
	}
	if s.bound != nil && slices.Contains(isNew, true) { // if there is no room, nothing must have changed
		for i := range states {
			states[i] = states[i].Clone()
		}
	}
	now := s.clock()
	changed, err := decide(states, now)
	if err != nil || !changed {
		return err
	}
	added := 0
	for i := range states {
		if isNew[i] && !states[i].IsZero() {
			added++
		}
	}
	if !s.bound.reserve(added) {
		return s.bound.full
	}
	for i, e := range entries {
		if states[i] != &e.state { // a clone
			e.state = *states[i]
		}
		e.expireAfter(decisions[i].ResetAfter, now)
		s.stripeOf(hashes[i]).keep(hashes[i], e, isNew[i])
	}
	for i := range entries {
		s.stripeOf(hashes[i]).reclaim(isNew[i], now)
	}
	return nil
}

func (s *Store) hash(key store.Key) uint64 {
	// One hash is rotated, so that swapping subject and name gives another.
	return maphash.String(s.seed, key.Subject) ^ bits.RotateLeft64(s.hashName(key.Name), 32)
}

// hashedName is a name with its hash.
type hashedName struct {
	name string
	hash uint64
}

// hashName returns the hash of a limit's name. It caches one name: a service has few names, and most calls have the
// same as the one before.
func (s *Store) hashName(name string) uint64 {
	if last := s.lastName.Load(); last != nil && last.name == name {
		return last.hash
	}
	hash := maphash.String(s.seed, name)
	if s.nameMisses.Add(1)%8 == 1 { // otherwise alternating names would cost an allocation each
		s.lastName.Store(&hashedName{name, hash})
	}
	return hash
}

// stripeIndex uses bits of the hash that the stripe's table does not use.
func stripeIndex(hash uint64) int { return int(hash >> (64 - stripeBits)) }

func (s *Store) stripeOf(hash uint64) *stripe { return &s.stripes[stripeIndex(hash)] }

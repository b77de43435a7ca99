// Package memorystore keeps limits in the memory of one process: the fastest
// store, for limits that need not be shared or outlive the process, and the one
// to test with, since its clock can be replaced.
package memorystore

import (
	"context"
	"hash/maphash"
	"iter"
	"math/bits"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter"
)

// shardCount keeps callers on different keys out of each other's way. Its
// bits also make the set of shards that a call locks one machine word.
const shardCount = 64

// Store is a [limiter.Store] and a [limiter.Keyspace] in memory.
//
// There is no lock over all of it and no goroutine behind it. Keys whose usage
// has lapsed are reclaimed a few at a time by the calls that come by, so that it
// holds at most a small multiple of the keys in use.
type Store struct {
	prefix string
	clock  func() limiter.Instant
	seed   maphash.Seed
	shards [shardCount]shard
}

// An Option changes how a Store is made.
type Option func(*Store)

// WithClock decides by clock instead of the process's time.
func WithClock(clock func() time.Time) Option {
	return func(s *Store) { s.clock = func() limiter.Instant { return limiter.InstantOf(clock()) } }
}

// WithPrefix sets what the store keys shown by Scan begin with.
func WithPrefix(prefix string) Option { return func(s *Store) { s.prefix = prefix } }

// New returns an empty Store.
func New(options ...Option) *Store {
	s := &Store{prefix: limiter.DefaultPrefix, seed: maphash.MakeSeed(), clock: monotonicClock()}
	for i := range s.shards {
		s.shards[i].entries = make(map[uint64]*entry)
	}
	for _, option := range options {
		option(s)
	}
	return s
}

// monotonicClock tells the time of day as it was at the start plus what has
// passed since, so that setting the system's clock changes no limit; reading it
// also costs about half of time.Now.
func monotonicClock() func() limiter.Instant {
	start := time.Now()
	startInstant := limiter.InstantOf(start)
	return func() limiter.Instant {
		return startInstant + limiter.Instant(time.Since(start)/time.Microsecond)
	}
}

// Close does nothing; the memory goes with the Store.
func (s *Store) Close() error { return nil }

// Decide implements [limiter.Store]. One request allocates nothing, unless its
// key is new or its log grows.
func (s *Store) Decide(ctx context.Context, op limiter.Op, reqs []limiter.Request, decisions []limiter.Decision) error {
	var room [1]limiter.Request
	normalized, err := limiter.NormalizeAll(room[:0], op, reqs)
	if err != nil {
		return err
	}
	if len(normalized) == 1 {
		hash := s.hash(normalized[0].Key)
		shard := s.shardOf(hash)
		shard.mu.Lock()
		s.decideOne(shard, hash, op, normalized, decisions)
		shard.mu.Unlock()
		return nil
	}
	s.decideSeveral(op, normalized, decisions)
	return nil
}

func (s *Store) decideOne(shard *shard, hash uint64, op limiter.Op, reqs []limiter.Request, decisions []limiter.Decision) {
	now := s.clock()
	e := shard.find(hash, reqs[0].Key)
	if e == nil {
		e = &entry{key: reqs[0].Key, hash: hash, index: notKept}
	}
	states := [1]*limiter.State{&e.state}
	if limiter.Decide(op, reqs, states[:], decisions, now) {
		shard.keep(e, now, decisions[0].ResetAfter)
	}
}

func (s *Store) decideSeveral(op limiter.Op, reqs []limiter.Request, decisions []limiter.Decision) {
	hashes := make([]uint64, len(reqs))
	locked := uint64(0) // a bit for each shard
	for i := range reqs {
		hashes[i] = s.hash(reqs[i].Key)
		locked |= 1 << (hashes[i] % shardCount)
	}
	// Always in the same order, so that two calls cannot wait for each other.
	for rest := locked; rest != 0; rest &= rest - 1 {
		s.shards[bits.TrailingZeros64(rest)].mu.Lock()
	}
	defer func() {
		for rest := locked; rest != 0; rest &= rest - 1 {
			s.shards[bits.TrailingZeros64(rest)].mu.Unlock()
		}
	}()
	entries, states := make([]*entry, len(reqs)), make([]*limiter.State, len(reqs))
	for i := range reqs {
		if entries[i] = s.shardOf(hashes[i]).find(hashes[i], reqs[i].Key); entries[i] == nil {
			entries[i] = &entry{key: reqs[i].Key, hash: hashes[i], index: notKept}
		}
		states[i] = &entries[i].state
	}
	now := s.clock()
	if limiter.Decide(op, reqs, states, decisions, now) {
		for i, e := range entries {
			s.shardOf(e.hash).keep(e, now, decisions[i].ResetAfter)
		}
	}
}

func (s *Store) hash(key limiter.Key) uint64 {
	// The name's hash is turned, lest a subject and a name trade places unseen.
	return maphash.String(s.seed, key.Subject) ^ bits.RotateLeft64(maphash.String(s.seed, key.Name), 31)
}

func (s *Store) shardOf(hash uint64) *shard { return &s.shards[hash%shardCount] }

// Scan implements [limiter.Keyspace]. It holds one shard's lock at a time and
// sees each shard at one instant.
func (s *Store) Scan(ctx context.Context, p limiter.Pattern) iter.Seq2[limiter.Entry, error] {
	return func(yield func(limiter.Entry, error) bool) {
		for i := range s.shards {
			for _, e := range s.scanShard(&s.shards[i], p) {
				if err := ctx.Err(); err != nil {
					yield(limiter.Entry{}, err)
					return
				}
				if !yield(e, nil) {
					return
				}
			}
		}
	}
}

func (s *Store) scanShard(shard *shard, p limiter.Pattern) []limiter.Entry {
	shard.mu.Lock()
	defer shard.mu.Unlock()
	now := s.clock()
	var found []limiter.Entry
	for _, e := range shard.order {
		if p.Match(e.key.Subject) && e.state.Used(now) > 0 {
			found = append(found, limiter.NewEntry(e.key, limiter.StoreKey(s.prefix, e.key), &e.state, now))
		}
	}
	return found
}

// Delete implements [limiter.Keyspace].
func (s *Store) Delete(ctx context.Context, keys ...limiter.Key) (deleted int, err error) {
	for _, key := range keys {
		hash := s.hash(key)
		shard := s.shardOf(hash)
		shard.mu.Lock()
		if e := shard.find(hash, key); e != nil {
			if e.state.Used(s.clock()) > 0 {
				deleted++
			}
			shard.remove(e)
		}
		shard.mu.Unlock()
	}
	return deleted, nil
}

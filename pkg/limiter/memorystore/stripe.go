package memorystore

import (
	"errors"
	"fmt"
	"hash/maphash"
	"sync"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// stripe is a part of the keys under one lock. The padding keeps the locks of neighbours in different cache lines.
type stripe struct {
	mu      sync.Mutex
	keys    aging[store.Key, *entry]
	charges uint // since the start; they trigger sweeps
	_       [64]byte
}

type entry struct {
	state     store.State
	expiresAt store.Instant // when state becomes equal to an unused one
}

const (
	// sweepKeys is the number of keys that the stripe looks at for each new one, and for each sweepEvery charges of
	// existing ones. It is above one, so that unused keys cannot pile up.
	sweepKeys  = 3
	sweepEvery = 64
	// lookForRoom is the number of keys that a call looks at when the Store is full. It bounds the work for each key of
	// a flood.
	lookForRoom = 1024
)

// stripeOf returns the stripe of all keys of a subject.
func (s *Store) stripeOf(key store.Key) int {
	return int(maphash.String(s.seed, key.Subject) >> (64 - stripeBits))
}

// reserve takes n places for new keys, and reports whether that many are free.
func (s *Store) reserve(n int) bool {
	if held := s.held.Add(int64(n)); s.most > 0 && held > s.most && n > 0 {
		s.held.Add(-int64(n))
		return false
	}
	return true
}

// keep stores e after a charge or a refund. There is a place for it.
func (s *Store) keep(in *stripe, key store.Key, e *entry, isNew bool) {
	switch empty := e.state.IsZero(); { // after a refund of all units
	case isNew && !empty:
		in.keys.all[key] = e
	case !isNew && empty:
		delete(in.keys.all, key)
		s.held.Add(-1)
	}
}

// reclaim looks for unused keys on behalf of a charge.
func (s *Store) reclaim(in *stripe, isNew bool, now store.Instant) {
	if in.charges++; isNew || in.charges%sweepEvery == 0 {
		s.sweep(in, sweepKeys, now)
	}
}

func (s *Store) sweep(in *stripe, n int, now store.Instant) (removed int) {
	removed = in.keys.sweep(n, func(e *entry) bool { return e.expiresAt <= now })
	s.held.Add(-int64(removed))
	return removed
}

// WithMaxKeys bounds the number of keys in the Store, so that a flood of them cannot fill the memory. Tokens, denials
// and overrides do not count. Without it, or with n below 1, there is no bound. A new key in a full Store takes the
// place of an unused one; no key in use is ever removed. If a short search finds none, the call fails with a
// [store.ErrRefused] and charges nothing.
func WithMaxKeys(n int) Option { return func(s *Store) { s.most = int64(n) } }

var errFull = errors.New("the store holds its most keys")

// withRoom calls do, and calls it again if the Store was full and some keys could be removed. do locks stripes, and
// changes nothing if it returns errFull.
func (s *Store) withRoom(do func() error) error {
	err := do()
	if errors.Is(err, errFull) && s.makeRoom() {
		err = do()
	}
	if errors.Is(err, errFull) {
		return fmt.Errorf("%w: the store holds its most keys, %d, and all are in use", store.ErrRefused, s.most)
	}
	return err
}

// makeRoom removes unused keys that it finds by a short search, and reports whether it found any. A stripe has its keys
// in a random order, so one search after the other finds all. The caller must hold no stripe's lock.
func (s *Store) makeRoom() (made bool) {
	now := s.clock()
	for i := range s.stripes {
		in := &s.stripes[i]
		in.mu.Lock()
		made = s.sweep(in, lookForRoom/stripeCount, now) > 0 || made
		in.mu.Unlock()
	}
	return made
}

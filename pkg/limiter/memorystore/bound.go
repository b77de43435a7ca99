package memorystore

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// bound counts the keys in all stripes of a Store with a limited number of keys.
type bound struct {
	most int64
	held atomic.Int64
	hand atomic.Uint32 // the stripe where the next search for room begins
	full error
}

// lookForRoom is the number of slots that a call reads when the Store is full. It bounds the work for each key of a
// flood.
const lookForRoom = 1024

// WithMaxKeys bounds the number of keys in the Store, so that a flood of them cannot fill the memory. Tokens,
// denials and overrides do not count. Without it, or with n below 1, there is no bound.
//
// The Store never removes a key in use: its subject would have its whole limit again. A new key in a full Store
// takes the place of an unused one. If a short search finds none, the call that needs the new key fails with a
// [store.ErrRefused] and charges nothing; existing keys are decided as before. With a million keys a search can
// miss an unused one; the next search continues where it ended.
func WithMaxKeys(n int) Option {
	return func(s *Store) {
		s.bound = nil
		if n >= 1 {
			s.bound = &bound{most: int64(n)}
			s.bound.full = fmt.Errorf("%w: the store holds its most keys, %d, and all are in use", store.ErrRefused, n)
		}
	}
}

// reserve takes n places for new keys, and reports whether that many are free. Without a bound it always succeeds.
func (b *bound) reserve(n int) bool {
	if b == nil || n == 0 {
		return true
	}
	for {
		held := b.held.Load()
		if held+int64(n) > b.most {
			return false
		}
		if b.held.CompareAndSwap(held, held+int64(n)) {
			return true
		}
	}
}

// release gives n places back.
func (b *bound) release(n int) {
	if b != nil {
		b.held.Add(-int64(n))
	}
}

// withRoom calls do, and calls it again if the Store was full and some keys could be removed. do locks stripes, and
// changes nothing if it returns the bound's error.
func (s *Store) withRoom(do func() error) error {
	err := do()
	if s.bound == nil || !errors.Is(err, s.bound.full) || !s.makeRoom() {
		return err
	}
	return do()
}

// makeRoom removes unused keys that it finds among lookForRoom slots, and reports whether it found any. The caller
// must hold no stripe's lock.
func (s *Store) makeRoom() (made bool) {
	now := s.clock()
	for looked, visited := 0, 0; looked < lookForRoom && visited < stripeCount; visited++ {
		stripe := &s.stripes[s.bound.hand.Add(1)%stripeCount]
		stripe.mu.Lock()
		held, n := stripe.held, min(len(stripe.slots), lookForRoom-looked)
		stripe.sweep(n, now)
		made = made || stripe.held < held
		stripe.mu.Unlock()
		looked += n
	}
	return made
}

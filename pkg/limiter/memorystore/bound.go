package memorystore

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// bound counts the keys of a Store that may hold so many, in all its shards.
type bound struct {
	most int64
	held atomic.Int64
	hand atomic.Uint32 // the shard where the next look for room begins
	full error
}

// lookForRoom is how many slots a call that finds the Store full looks at. A flood of new keys
// then costs no more than that for each.
const lookForRoom = 1024

// WithMaxKeys bounds how many keys the Store holds, so that a flood of them cannot fill the memory.
// Tokens, denials and overrides do not count. Without it, and with n below 1, there is no bound.
//
// No key that is in use ever makes way for another: its subject would have its whole limit again.
// A new key that comes when n are held takes the place of one that has become unused. If a short
// look finds none, the call that would add the key is a [store.ErrRefused] that charges nothing,
// and the keys that are held are decided as ever. With a million keys such a look may miss one; the
// next goes on where it ended.
func WithMaxKeys(n int) Option {
	return func(s *Store) {
		s.bound = nil
		if n >= 1 {
			s.bound = &bound{most: int64(n)}
			s.bound.full = fmt.Errorf("%w: the store holds its most keys, %d, and all are in use", store.ErrRefused, n)
		}
	}
}

// reserve takes n places for new keys, and reports whether there are as many. Without a bound
// there always are.
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

// withRoom calls do, and once more if the Store was full and some keys could be removed. do locks
// shards, and changes nothing if it returns the bound's error.
func (s *Store) withRoom(do func() error) error {
	err := do()
	if s.bound == nil || !errors.Is(err, s.bound.full) || !s.makeRoom() {
		return err
	}
	return do()
}

// makeRoom removes keys that are unused by now, as far as a look at lookForRoom slots finds some,
// and reports whether it found any. It needs all shards unlocked.
func (s *Store) makeRoom() (made bool) {
	now := s.clock()
	for looked, visited := 0, 0; looked < lookForRoom && visited < shardCount; visited++ {
		shard := &s.shards[s.bound.hand.Add(1)%shardCount]
		shard.mu.Lock()
		held, n := shard.held, min(len(shard.slots), lookForRoom-looked)
		shard.sweep(n, now)
		made = made || shard.held < held
		shard.mu.Unlock()
		looked += n
	}
	return made
}

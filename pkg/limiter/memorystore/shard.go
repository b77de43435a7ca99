package memorystore

import (
	"sync"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// shard is a part of the keys under a lock of its own: a hash table with open
// addressing, which costs a look-up one memory access before the entry itself and
// can be swept slot by slot. The padding keeps the locks of neighbours out of one
// cache line.
type shard struct {
	mu      sync.Mutex
	slots   []slot // their number is a power of two
	held    int    // entries in them
	hand    int    // where the next sweep begins
	charges uint   // since the start, to pace the sweeps
	bound   *bound // of all shards; nil for none
	_       [64]byte
}

// slot is a place for an entry; without one it is empty.
type slot struct {
	hash  uint64
	entry *entry
}

type entry struct {
	key       store.Key
	state     store.State
	expiresAt store.Instant // when state equals an unused one
	_         [16]byte      // so that it lies in two lines of a processor's cache, and not in three
}

const (
	// sweepOnInsert is how many slots a new key makes the shard look at: several
	// for each one added, so that expired entries cannot pile up.
	sweepOnInsert = 8
	// sweepEvery is how many charges of known keys pay for looking at one slot,
	// so that expired entries are removed also while no new keys come. Where that slot's
	// has expired, others have, too, and each charge pays for one.
	sweepEvery = 16
	minSlots   = 8
)

// find returns the entry of key, if the shard holds one.
func (s *shard) find(hash uint64, key store.Key) *entry {
	if i := s.index(hash, key); s.slots[i].entry != nil {
		return s.slots[i].entry
	}
	return nil
}

// index returns the slot of key, or the empty one where it would go.
func (s *shard) index(hash uint64, key store.Key) int {
	mask := len(s.slots) - 1
	i := int(hash) & mask
	for {
		at := &s.slots[i]
		if at.entry == nil || at.hash == hash && at.entry.key == key {
			return i
		}
		i = (i + 1) & mask
	}
}

// keep stores e, which a charge or refund has just changed.
func (s *shard) keep(hash uint64, e *entry, isNew bool) {
	empty := e.state.IsZero() // refunded down to nothing
	switch {
	case isNew && !empty:
		s.add(hash, e)
	case !isNew && empty:
		s.remove(s.index(hash, e.key))
	}
}

// reclaim makes a charge pay its part of looking for expired entries. It
// comes after all entries of a call are kept, since it may remove those whose
// expiry is still that of before.
func (s *shard) reclaim(isNew bool, now store.Instant) {
	if isNew {
		s.sweep(sweepOnInsert, now)
		return
	}
	if s.charges++; s.charges%sweepEvery != 0 {
		return
	}
	held := s.held
	if s.sweep(1, now); s.held < held {
		s.sweep(sweepEvery-1, now)
	}
}

// add stores e, for which a place is reserved.
func (s *shard) add(hash uint64, e *entry) {
	if (s.held+1)*4 > len(s.slots)*3 {
		s.resize(2 * len(s.slots))
	}
	s.slots[s.index(hash, e.key)] = slot{hash, e}
	s.held++
}

// sweep looks at n slots, further round from last time, and removes entries that
// have expired.
func (s *shard) sweep(n int, now store.Instant) {
	for range n {
		s.hand &= len(s.slots) - 1
		if e := s.slots[s.hand].entry; e != nil && e.expiresAt <= now {
			s.remove(s.hand) // another may move here and is looked at next
		} else {
			s.hand++
		}
	}
}

// remove empties slot i, and moves up what had to go past it.
func (s *shard) remove(i int) {
	mask := len(s.slots) - 1
	for j := (i + 1) & mask; s.slots[j].entry != nil; j = (j + 1) & mask {
		// An entry may move from j to i unless its own place lies in between.
		if home := int(s.slots[j].hash) & mask; (j-home)&mask >= (j-i)&mask {
			s.slots[i] = s.slots[j]
			i = j
		}
	}
	s.slots[i] = slot{}
	s.held--
	s.bound.release(1)
	if len(s.slots) > minSlots && s.held*8 < len(s.slots) {
		s.resize(len(s.slots) / 2)
	}
}

// resize lays the table anew, to grow or to give memory back.
func (s *shard) resize(size int) {
	old := s.slots
	s.slots = make([]slot, max(minSlots, size))
	for _, at := range old {
		if at.entry != nil {
			s.slots[s.index(at.hash, at.entry.key)] = at
		}
	}
}

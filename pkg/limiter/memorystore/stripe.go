package memorystore

import (
	"sync"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// stripe is a part of the keys under one lock: a hash table with open addressing. A look-up costs one memory access
// before the entry itself, and a sweep can go slot by slot. The padding keeps the locks of neighbours in different
// cache lines.
type stripe struct {
	mu      sync.Mutex
	slots   []slot // their number is a power of two
	held    int    // entries in them
	hand    int    // where the next sweep begins
	charges uint   // since the start; they trigger the sweeps
	bound   *bound // of all stripes; nil for none
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
	expiresAt store.Instant // when state becomes equal to an unused one
	_         [16]byte      // so that an entry takes two cache lines and not three
}

const (
	// sweepOnInsert is the number of slots that the stripe sweeps for each new key. It is above one, so that expired
	// entries cannot pile up.
	sweepOnInsert = 8
	// sweepEvery is the number of charges of existing keys for which the stripe sweeps one slot, so that expired
	// entries go even without new keys. When that slot has expired, others probably have, too, and then each charge
	// sweeps one.
	sweepEvery = 16
	minSlots   = 8
)

// find returns the entry of key, or nil.
func (s *stripe) find(hash uint64, key store.Key) *entry {
	if i := s.index(hash, key); s.slots[i].entry != nil {
		return s.slots[i].entry
	}
	return nil
}

// index returns the slot of key, or the empty one where it would go.
func (s *stripe) index(hash uint64, key store.Key) int {
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

// keep stores e after a charge or a refund.
func (s *stripe) keep(hash uint64, e *entry, isNew bool) {
	empty := e.state.IsZero() // a refund of all units
	switch {
	case isNew && !empty:
		s.add(hash, e)
	case !isNew && empty:
		s.remove(s.index(hash, e.key))
	}
}

// reclaim sweeps on behalf of a charge. It runs after all entries of a call are stored, since it may remove those
// with an old expiry.
func (s *stripe) reclaim(isNew bool, now store.Instant) {
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

// add stores e in a place that is reserved.
func (s *stripe) add(hash uint64, e *entry) {
	if (s.held+1)*4 > len(s.slots)*3 {
		s.resize(2 * len(s.slots))
	}
	s.slots[s.index(hash, e.key)] = slot{hash, e}
	s.held++
}

// sweep reads the next n slots and removes entries that have expired.
func (s *stripe) sweep(n int, now store.Instant) {
	for range n {
		s.hand &= len(s.slots) - 1
		if e := s.slots[s.hand].entry; e != nil && e.expiresAt <= now {
			s.remove(s.hand) // another entry can move here and is checked next
		} else {
			s.hand++
		}
	}
}

// remove empties slot i, and moves entries up that had to be stored further on because of it.
func (s *stripe) remove(i int) {
	mask := len(s.slots) - 1
	for j := (i + 1) & mask; s.slots[j].entry != nil; j = (j + 1) & mask {
		// An entry can move from j to i unless its own place is in between.
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

// resize rebuilds the table with another size, to grow or to release memory.
func (s *stripe) resize(size int) {
	old := s.slots
	s.slots = make([]slot, max(minSlots, size))
	for _, at := range old {
		if at.entry != nil {
			s.slots[s.index(at.hash, at.entry.key)] = at
		}
	}
}

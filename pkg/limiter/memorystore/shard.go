package memorystore

import (
	"sync"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter"
)

// shard is a part of the keys under a lock of its own. The padding keeps the
// locks of neighbours out of one cache line.
type shard struct {
	mu      sync.Mutex
	entries map[uint64]*entry // by the key's hash; those of one hash are chained
	order   []*entry          // all entries, each in the place it knows
	hand    int               // where in order the next sweep begins
	charges uint              // since the start, to pace the sweeps
	most    int               // entries held at most since the map was made anew
	_       [64]byte
}

type entry struct {
	key       limiter.Key
	hash      uint64
	next      *entry // of the same hash
	state     limiter.State
	expiresAt limiter.Instant // when state equals an unused one
	index     int             // in order, or notKept
}

const notKept = -1

const (
	// sweepOnInsert is how many entries a new key makes the shard look at:
	// several for every one added, so that expired ones cannot pile up.
	sweepOnInsert = 4
	// sweepEvery is how many charges of known keys pay for looking at one
	// entry, so that what has lapsed goes without new keys, too.
	sweepEvery = 16
	// worthShrinking is the size below which a map is not worth making anew.
	worthShrinking = 1024
)

// find returns the entry of key, if the shard keeps one.
func (s *shard) find(hash uint64, key limiter.Key) *entry {
	e := s.entries[hash]
	for e != nil && e.key != key {
		e = e.next
	}
	return e
}

// keep stores what a charge or refund has made of e, which may be new. resetAfter
// is how long e's state stays different from an unused one.
func (s *shard) keep(e *entry, now limiter.Instant, resetAfter time.Duration) {
	isNew := e.index == notKept
	if e.state.IsZero() { // refunded down to nothing
		if !isNew {
			s.remove(e)
		}
		return
	}
	e.expiresAt = now + limiter.Instant(resetAfter/time.Microsecond)
	if isNew {
		s.add(e)
		s.sweep(sweepOnInsert, now)
		return
	}
	if s.charges++; s.charges%sweepEvery == 0 {
		s.sweep(1, now)
	}
}

func (s *shard) add(e *entry) {
	e.index = len(s.order)
	s.order = append(s.order, e)
	e.next = s.entries[e.hash]
	s.entries[e.hash] = e
	s.most = max(s.most, len(s.order))
}

// sweep looks at n entries, further round from last time, and removes those
// that have lapsed.
func (s *shard) sweep(n int, now limiter.Instant) {
	for range n {
		if len(s.order) == 0 {
			return
		}
		if s.hand >= len(s.order) {
			s.hand = 0
		}
		if e := s.order[s.hand]; e.expiresAt <= now {
			s.remove(e) // the last one takes its place and is looked at next
		} else {
			s.hand++
		}
	}
}

func (s *shard) remove(e *entry) {
	last := len(s.order) - 1
	s.order[e.index] = s.order[last]
	s.order[e.index].index = e.index
	s.order[last] = nil
	s.order = s.order[:last]
	s.unchain(e)
	e.index = notKept
	if s.most > worthShrinking && len(s.order) < s.most/4 {
		s.shrink()
	}
}

// unchain takes e out of the map.
func (s *shard) unchain(e *entry) {
	first := s.entries[e.hash]
	switch {
	case first != e:
		for first.next != e {
			first = first.next
		}
		first.next = e.next
	case e.next != nil:
		s.entries[e.hash] = e.next
	default:
		delete(s.entries, e.hash)
	}
}

// shrink makes the map and the slice anew, since neither gives memory back by
// itself.
func (s *shard) shrink() {
	s.entries = make(map[uint64]*entry, len(s.order))
	kept := s.order
	s.order = make([]*entry, 0, len(kept)+1)
	s.most = 0
	for _, e := range kept {
		s.add(e)
	}
}

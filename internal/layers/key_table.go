package layers

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// keyTable remembers values for keys, each under one limit and for requests that leave as much. It holds a fixed number
// of them, in sets of four. A look-up takes no lock and allocates nothing.
type keyTable[T any] struct {
	seed maphash.Seed
	sets []keySet[T] // their number is a power of two
}

const keysInSet = 4

type keySet[T any] struct {
	mu    sync.Mutex // held to change the slots
	slots [keysInSet]atomic.Pointer[keyed[T]]
	// forgotten counts removals, so that a caller can notice that its answer may be older than one.
	forgotten atomic.Uint64
}

// keyed is a value for a key under a limit, for requests that leave as much.
type keyed[T any] struct {
	key   store.Key
	limit store.Limit
	leave int64 // see [store.Request].Leave
	value T
}

func (k *keyed[T]) is(req *store.Request) bool {
	return k.key == req.Key && k.limit == req.Limit && k.leave == req.Leave
}

// request returns a request for cost units of k.
func (k *keyed[T]) request(cost int64) store.Request {
	return store.Request{Key: k.key, Limit: k.limit, Cost: cost, Leave: k.leave}
}

// newKeyTable returns a table for at least that many keys.
func newKeyTable[T any](keys int) *keyTable[T] {
	sets := 1
	for sets*keysInSet < keys {
		sets *= 2
	}
	return &keyTable[T]{seed: maphash.MakeSeed(), sets: make([]keySet[T], sets)}
}

// hash returns the hash of a key with a name.
func (t *keyTable[T]) hash(key *store.Key) uint64 {
	return maphash.String(t.seed, key.Subject)*0x9e3779b97f4a7c15 ^ maphash.String(t.seed, key.Name)
}

func (t *keyTable[T]) set(hash uint64) *keySet[T] { return &t.sets[hash&uint64(len(t.sets)-1)] }

// find returns the value for the normalized req, or nil.
func (s *keySet[T]) find(req *store.Request) *keyed[T] {
	for i := range s.slots {
		if k := s.slots[i].Load(); k != nil && k.is(req) {
			return k
		}
	}
	return nil
}

// put stores k, in place of its old value or, if the set is full, of the one with the least worth; a negative worth is
// never replaced. It returns the replaced value, and whether there was room. The caller holds s.mu.
func (s *keySet[T]) put(k *keyed[T], worth func(*T) time.Duration) (givenUp *keyed[T], done bool) {
	place := -1
	var least time.Duration
	for i := range s.slots {
		old := s.slots[i].Load()
		if old == nil {
			if place < 0 || least >= 0 {
				place, least = i, -1 // an empty slot is better than any other
			}
			continue
		}
		if old.key == k.key && old.limit == k.limit && old.leave == k.leave {
			place = i
			break
		}
		if w := worth(&old.value); w >= 0 && (place < 0 || w < least) {
			place, least = i, w
		}
	}
	if place < 0 {
		return nil, false
	}
	return s.slots[place].Swap(k), true
}

// forget removes all values of a key, under any limit and leave.
func (s *keySet[T]) forget(key *store.Key) {
	s.forgotten.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.slots {
		if k := s.slots[i].Load(); k != nil && k.key == *key {
			s.slots[i].Store(nil)
		}
	}
}

// stopwatch returns the time since it was made.
type stopwatch struct {
	begun time.Time
	clock func() time.Time // nil for the process's own time, which is then faster to read
}

func newStopwatch(clock func() time.Time) stopwatch {
	if clock == nil {
		return stopwatch{begun: time.Now()}
	}
	return stopwatch{clock(), clock}
}

func (w *stopwatch) now() time.Duration {
	if w.clock == nil {
		return time.Since(w.begun)
	}
	return w.clock().Sub(w.begun)
}

// each calls f with each key.
func (t *keyTable[T]) each(f func(*keyed[T])) {
	for i := range t.sets {
		for j := range t.sets[i].slots {
			if k := t.sets[i].slots[j].Load(); k != nil {
				f(k)
			}
		}
	}
}

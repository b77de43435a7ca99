package redisserver

import (
	"hash/maphash"
	"math/bits"
)

// Seen remembers which keys a scan gave, since some come twice: from one server soon after
// one another, from the masters of a Cluster whenever their slot moves. It is not safe for
// concurrent use.
type Seen interface {
	// First reports whether a key comes for the first time, and remembers it.
	First(storeKey string) bool
	// Has reports whether a key has come, as far as it is remembered.
	Has(storeKey string) bool
}

// NewSeen returns a Seen for one scan of the servers.
func (s *Servers) NewSeen() Seen {
	if s.IsCluster() {
		return NewSeenAll()
	}
	return newSeenLately(seenGeneration)
}

// NewSeenAll returns a Seen that remembers all keys.
func NewSeenAll() Seen { return newSeenKeys(maphash.MakeSeed()) }

// seenLately remembers the last keys. More is not needed for one server: its SCAN goes
// through the buckets of a hash table in an order in which the buckets that become one when
// the table shrinks are neighbours. So a key that comes twice does so within what one bucket
// of the smaller table holds.
type seenLately struct {
	generation    int
	young, former *seenKeys
}

// seenGeneration is the least number of the last keys that are remembered: enough for a table that shrinks to a hundred-thousandth
// in the middle of a scan. More takes memory, and is not in the processor's cache.
const seenGeneration = 1 << 17

func newSeenLately(generation int) *seenLately {
	seed := maphash.MakeSeed()
	return &seenLately{young: newSeenKeys(seed), former: newSeenKeys(seed), generation: generation}
}

// First implements Seen.
func (s *seenLately) First(storeKey string) bool {
	hash := s.young.hash(storeKey)
	if s.young.has(hash) || s.former.has(hash) {
		return false
	}
	if s.young.count >= s.generation {
		s.young, s.former = newSeenKeys(s.young.seed), s.young
	}
	s.young.add(hash)
	return true
}

// Has implements Seen.
func (s *seenLately) Has(storeKey string) bool {
	hash := s.young.hash(storeKey)
	return s.young.has(hash) || s.former.has(hash)
}

// seenKeys remembers all keys, in 10 to 13 bytes each, by a 64-bit hash: among ten million
// keys two share one with a probability of 3 in a million. A map takes 20 to 40 bytes.
//
// The first bits of a hash choose one of many hash tables without pointers.
// So only a little is copied when a table grows, however many keys there are.
type seenKeys struct {
	seed   maphash.Seed
	tables [1 << tableBits]seenTable
	count  int
}

// seenTable has hashes in slots, each in the first free slot from its place on. 0 is a free slot.
type seenTable struct {
	slots []uint64
	count int
}

const tableBits = 10

func newSeenKeys(seed maphash.Seed) *seenKeys { return &seenKeys{seed: seed} }

// First implements Seen.
func (s *seenKeys) First(storeKey string) bool {
	hash := s.hash(storeKey)
	if s.has(hash) {
		return false
	}
	s.add(hash)
	return true
}

// Has implements Seen.
func (s *seenKeys) Has(storeKey string) bool { return s.has(s.hash(storeKey)) }

// hash returns the hash of a key, which depends on the seed. It is never 0.
func (s *seenKeys) hash(key string) uint64 { return max(1, maphash.String(s.seed, key)) }

func (s *seenKeys) table(hash uint64) *seenTable { return &s.tables[hash>>(64-tableBits)] }

func (s *seenKeys) has(hash uint64) bool {
	t := s.table(hash)
	return len(t.slots) > 0 && t.slots[t.find(hash)] == hash
}

// add adds a new hash.
func (s *seenKeys) add(hash uint64) {
	s.count++
	t := s.table(hash)
	if t.count++; t.count*5 > len(t.slots)*4 {
		grown := seenTable{slots: make([]uint64, len(t.slots)*5/4+4), count: t.count}
		for _, h := range t.slots {
			if h != 0 {
				grown.slots[grown.find(h)] = h
			}
		}
		*t = grown
	}
	t.slots[t.find(hash)] = hash
}

// find returns the slot that has a hash, or the free slot for it.
func (t *seenTable) find(hash uint64) int {
	at, _ := bits.Mul64(hash<<tableBits, uint64(len(t.slots)))
	i := int(at)
	for t.slots[i] != 0 && t.slots[i] != hash {
		if i++; i == len(t.slots) {
			i = 0
		}
	}
	return i
}

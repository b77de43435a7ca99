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

// seenGeneration is the least number of the last keys that are remembered.
const seenGeneration = 1 << 19

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
// The first bits of a hash choose a part, which is a hash table of its own without pointers.
// So what is copied when a table grows is small, however many keys there are.
type seenKeys struct {
	seed  maphash.Seed
	parts [1 << seenPartBits]seenPart
	count int
}

// seenPart has hashes in slots: each in the first free one from where it belongs. 0 is free.
type seenPart struct {
	slots []uint64
	count int
}

const seenPartBits = 10

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

// hash returns what stands for a key in all that have the same seed. It is never 0.
func (s *seenKeys) hash(key string) uint64 { return max(1, maphash.String(s.seed, key)) }

func (s *seenKeys) part(hash uint64) *seenPart { return &s.parts[hash>>(64-seenPartBits)] }

func (s *seenKeys) has(hash uint64) bool {
	p := s.part(hash)
	return len(p.slots) > 0 && p.slots[p.find(hash)] == hash
}

// add remembers a hash that is not there.
func (s *seenKeys) add(hash uint64) {
	s.count++
	p := s.part(hash)
	if p.count++; p.count*5 > len(p.slots)*4 {
		grown := seenPart{slots: make([]uint64, len(p.slots)*5/4+4), count: p.count}
		for _, h := range p.slots {
			if h != 0 {
				grown.slots[grown.find(h)] = h
			}
		}
		*p = grown
	}
	p.slots[p.find(hash)] = hash
}

// find returns the slot that has a hash, or else the one for it.
func (p *seenPart) find(hash uint64) int {
	at, _ := bits.Mul64(hash<<seenPartBits, uint64(len(p.slots)))
	i := int(at)
	for p.slots[i] != 0 && p.slots[i] != hash {
		if i++; i == len(p.slots) {
			i = 0
		}
	}
	return i
}

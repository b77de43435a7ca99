package redisserver

import (
	"encoding/binary"
	"hash/maphash"
)

// Seen remembers which keys a scan gave, since some come twice: from one server soon after
// one another, from the masters of a Cluster whenever their slot moves. It is not safe for
// concurrent use.
type Seen interface {
	// First reports whether a key comes for the first time, and remembers it.
	First(storeKey string) bool
}

// NewSeen returns a Seen for one scan of the servers.
func (s *Servers) NewSeen() Seen {
	if s.IsCluster() {
		return &seenAll{newSeenKeys(seenPartBits, maphash.MakeSeed())}
	}
	return newSeenLately(seenGeneration)
}

// seenAll remembers all keys.
type seenAll struct{ *seenKeys }

// First implements Seen.
func (s *seenAll) First(storeKey string) bool {
	hash := s.hash(storeKey)
	if s.has(hash) {
		return false
	}
	s.add(hash)
	return true
}

// seenLately remembers the last of the keys. That is all there is to remember of a
// server's SCAN: it goes through the buckets of a hash table in an order in which
// those that become one bucket, when the table shrinks, are neighbours. So a key
// that comes twice does so within what one bucket of the smaller table holds.
type seenLately struct {
	generation    int
	young, former *seenKeys
}

// seenGeneration is how many of the last keys are remembered at least.
const seenGeneration = 1 << 19

func newSeenLately(generation int) *seenLately {
	seed := maphash.MakeSeed()
	return &seenLately{young: newSeenKeys(seenPartBits, seed), former: newSeenKeys(0, seed), generation: generation}
}

// First implements Seen.
func (s *seenLately) First(storeKey string) bool {
	hash := s.young.hash(storeKey)
	if s.young.has(hash) || s.former.has(hash) {
		return false
	}
	if s.young.count >= s.generation {
		s.young, s.former = newSeenKeys(seenPartBits, s.young.seed), s.young
	}
	s.young.add(hash)
	return true
}

// seenKeys remembers keys in 7 to 9 bytes each, by a 64-bit hash: among ten million keys
// two share one with a probability of 3 in a million.
//
// The first bits of a hash choose a part, and 48 others are kept there, without
// order, in a chain of chunks. Those are cut from slabs, so that nothing is ever
// moved or thrown away.
type seenKeys struct {
	seed  maphash.Seed
	parts []seenPart
	slabs [][]byte
	used  uint32 // chunks
	count int
}

// seenPart is the newest chunk of a part's chain and how many hashes are in it.
type seenPart struct {
	chunk  uint32 // from 1; 0 if it has no chunk
	filled uint8
}

const (
	seenEntry     = 6                          // bytes of a hash
	seenPerChunk  = 10                         // hashes
	seenChunk     = 4 + seenPerChunk*seenEntry // bytes: the number of the next older chunk, and the hashes
	chunksPerSlab = 1 << 12
	// seenPartBits is how many bits of a hash choose a part. Half a million keys, a
	// generation, are then 8 to a part, and most parts have one chunk.
	seenPartBits = 16
)

func newSeenKeys(partBits int, seed maphash.Seed) *seenKeys {
	return &seenKeys{seed: seed, parts: make([]seenPart, 1<<partBits)}
}

// hash returns what stands for a key in all that have the same seed.
func (s *seenKeys) hash(key string) uint64 { return maphash.String(s.seed, key) }

func (s *seenKeys) place(hash uint64) (part *seenPart, rest uint64) {
	return &s.parts[hash>>48&uint64(len(s.parts)-1)], hash & (1<<48 - 1)
}

// chunk returns a chunk by its number.
func (s *seenKeys) chunk(number uint32) []byte {
	number--
	first := int(number%chunksPerSlab) * seenChunk
	return s.slabs[number/chunksPerSlab][first : first+seenChunk]
}

func (s *seenKeys) has(hash uint64) bool {
	part, rest := s.place(hash)
	filled := int(part.filled)
	for number := part.chunk; number != 0; {
		chunk := s.chunk(number)
		for entry := chunk[4 : 4+filled*seenEntry]; len(entry) > 0; entry = entry[seenEntry:] {
			if uint64(binary.BigEndian.Uint16(entry))<<32|uint64(binary.BigEndian.Uint32(entry[2:])) == rest {
				return true
			}
		}
		number, filled = binary.BigEndian.Uint32(chunk), seenPerChunk
	}
	return false
}

func (s *seenKeys) add(hash uint64) {
	part, rest := s.place(hash)
	if part.chunk == 0 || part.filled == seenPerChunk {
		if s.used%chunksPerSlab == 0 {
			s.slabs = append(s.slabs, make([]byte, chunksPerSlab*seenChunk))
		}
		s.used++
		binary.BigEndian.PutUint32(s.chunk(s.used), part.chunk)
		part.chunk, part.filled = s.used, 0
	}
	entry := s.chunk(part.chunk)[4+int(part.filled)*seenEntry:]
	binary.BigEndian.PutUint16(entry, uint16(rest>>32))
	binary.BigEndian.PutUint32(entry[2:], uint32(rest))
	part.filled++
	s.count++
}

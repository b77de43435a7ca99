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
	// Has reports whether a key has come, as far as it is remembered.
	Has(storeKey string) bool
}

// NewSeen returns a Seen for one scan of the servers.
func (s *Servers) NewSeen() Seen {
	if s.IsCluster() {
		return &seenAll{newSeenKeys(seenPartBits, maphash.MakeSeed())}
	}
	return newSeenLately(seenGeneration)
}

// NewSeenAll returns a Seen that remembers all keys, in about 10 bytes each.
func NewSeenAll() Seen { return &seenAll{newSeenKeys(0, maphash.MakeSeed())} }

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

// Has implements Seen.
func (s *seenAll) Has(storeKey string) bool { return s.has(s.hash(storeKey)) }

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

// Has implements Seen.
func (s *seenLately) Has(storeKey string) bool {
	hash := s.young.hash(storeKey)
	return s.young.has(hash) || s.former.has(hash)
}

// seenKeys remembers keys in 8 to 10 bytes each, by a 64-bit hash: among ten million keys
// two share one with a probability of 3 in a million.
//
// The first bits of a hash choose a part, and 48 others are kept there, without order, in
// a chain of chunks. So that chains stay short however many keys there are, the table
// grows as in linear hashing: now and then one part is split into two, by one more bit of
// its hashes. Chunks are cut from slabs, which are never moved, and used again.
type seenKeys struct {
	seed     maphash.Seed
	partBits int
	parts    []seenPart
	base     int // how many parts there were when the first of them was to be split next
	slabs    [][]byte
	used     uint32 // chunks
	free     uint32 // the first of a chain of chunks that are not in use; 0 if there is none
	count    int
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
	// seenPartBits is how many bits of a hash choose a part at first. Half a million keys, a
	// generation, are then 8 to a part, and most parts have one chunk.
	seenPartBits = 16
	// seenPerPart is how many hashes the parts have on average before one is split. With
	// more it takes longer to look through them, with fewer chunks are emptier.
	seenPerPart = 20
	seenRest    = 1<<48 - 1 // the bits of a hash that are kept
)

func newSeenKeys(partBits int, seed maphash.Seed) *seenKeys {
	return &seenKeys{seed: seed, partBits: partBits, parts: make([]seenPart, 1<<partBits), base: 1 << partBits}
}

// hash returns what stands for a key in all that have the same seed.
func (s *seenKeys) hash(key string) uint64 { return maphash.String(s.seed, key) }

// place returns the number of a hash's part: of its first bits, and then of as many of those
// that are kept as there have been splits for.
func (s *seenKeys) place(hash uint64) int {
	bits := hash>>48&(1<<s.partBits-1) | (hash&seenRest)<<s.partBits
	part := int(bits & uint64(2*s.base-1))
	if part >= len(s.parts) {
		part = int(bits & uint64(s.base-1))
	}
	return part
}

// chunk returns a chunk by its number.
func (s *seenKeys) chunk(number uint32) []byte {
	number--
	first := int(number%chunksPerSlab) * seenChunk
	return s.slabs[number/chunksPerSlab][first : first+seenChunk]
}

func (s *seenKeys) has(hash uint64) bool {
	part, rest := &s.parts[s.place(hash)], hash&seenRest
	filled := int(part.filled)
	for number := part.chunk; number != 0; {
		chunk := s.chunk(number)
		for entry := chunk[4 : 4+filled*seenEntry]; len(entry) > 0; entry = entry[seenEntry:] {
			if restOf(entry) == rest {
				return true
			}
		}
		number, filled = binary.BigEndian.Uint32(chunk), seenPerChunk
	}
	return false
}

func restOf(entry []byte) uint64 {
	return uint64(binary.BigEndian.Uint16(entry))<<32 | uint64(binary.BigEndian.Uint32(entry[2:]))
}

func (s *seenKeys) add(hash uint64) {
	s.put(&s.parts[s.place(hash)], hash&seenRest)
	if s.count++; s.count > seenPerPart*len(s.parts) {
		s.split()
	}
}

// put puts what is kept of a hash into a part.
func (s *seenKeys) put(part *seenPart, rest uint64) {
	if part.chunk == 0 || part.filled == seenPerChunk {
		number := s.newChunk()
		binary.BigEndian.PutUint32(s.chunk(number), part.chunk)
		part.chunk, part.filled = number, 0
	}
	entry := s.chunk(part.chunk)[4+int(part.filled)*seenEntry:]
	binary.BigEndian.PutUint16(entry, uint16(rest>>32))
	binary.BigEndian.PutUint32(entry[2:], uint32(rest))
	part.filled++
}

// newChunk returns the number of a chunk that is not in use.
func (s *seenKeys) newChunk() uint32 {
	if number := s.free; number != 0 {
		s.free = binary.BigEndian.Uint32(s.chunk(number))
		return number
	}
	if s.used%chunksPerSlab == 0 {
		s.slabs = append(s.slabs, make([]byte, chunksPerSlab*seenChunk))
	}
	s.used++
	return s.used
}

// split splits the next part into two.
func (s *seenKeys) split() {
	first := len(s.parts) - s.base
	old := s.parts[first]
	s.parts[first] = seenPart{}
	s.parts = append(s.parts, seenPart{})
	bit := uint64(s.base) >> s.partBits // of what is kept
	filled := int(old.filled)
	for number := old.chunk; number != 0; {
		var hashes [seenPerChunk * seenEntry]byte // the chunk may be used again for them
		chunk := s.chunk(number)
		copy(hashes[:], chunk[4:])
		next := binary.BigEndian.Uint32(chunk)
		binary.BigEndian.PutUint32(chunk, s.free)
		s.free = number
		for entry := hashes[:filled*seenEntry]; len(entry) > 0; entry = entry[seenEntry:] {
			part := first
			rest := restOf(entry)
			if rest&bit != 0 {
				part = len(s.parts) - 1
			}
			s.put(&s.parts[part], rest)
		}
		number, filled = next, seenPerChunk
	}
	if len(s.parts) == 2*s.base {
		s.base = len(s.parts)
	}
}

package redisstore

import (
	"encoding/binary"
	"hash/maphash"
)

// seenKeys remembers keys in about 6.5 bytes each, by a 64-bit hash: among ten
// million keys two share one with a probability of 3 in a million.
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
	chunk  uint32 // 1 is the first; 0 is none
	filled uint8
}

const (
	seenEntry      = 6                // bytes of a hash
	seenPerChunk   = 21               // hashes
	seenChunk      = 4 + 21*seenEntry // bytes: the number of the next older chunk, and the hashes
	chunksPerSlab  = 1 << 12
	seenPartsMost  = 16 // bits of the hash that choose a part, for very many keys
	seenPartsFewer = 13
)

func newSeenKeys(partBits int) *seenKeys {
	return &seenKeys{seed: maphash.MakeSeed(), parts: make([]seenPart, 1<<partBits)}
}

func (s *seenKeys) place(key string) (part *seenPart, rest uint64) {
	hash := maphash.String(s.seed, key)
	return &s.parts[hash>>48&uint64(len(s.parts)-1)], hash & (1<<48 - 1)
}

// chunk returns a chunk by its number.
func (s *seenKeys) chunk(number uint32) []byte {
	number--
	first := int(number%chunksPerSlab) * seenChunk
	return s.slabs[number/chunksPerSlab][first : first+seenChunk]
}

func (s *seenKeys) has(key string) bool {
	part, rest := s.place(key)
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

func (s *seenKeys) add(key string) {
	part, rest := s.place(key)
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

func newSeenLately() *seenLately {
	return &seenLately{young: newSeenKeys(seenPartsFewer), former: newSeenKeys(seenPartsFewer), generation: seenGeneration}
}

func (s *seenLately) has(key string) bool { return s.young.has(key) || s.former.has(key) }

func (s *seenLately) add(key string) {
	if s.young.count >= s.generation {
		s.young, s.former = newSeenKeys(seenPartsFewer), s.young
	}
	s.young.add(key)
}

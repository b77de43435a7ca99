package redisstore

import (
	"encoding/binary"
	"hash/maphash"
	"slices"
)

// seenKeys remembers keys in about 7 bytes each, by a 64-bit hash: among ten
// million keys two share one with a probability of 3 in a million. A hash's first
// 16 bits choose a part and the other 48 are kept there, without order.
type seenKeys struct {
	seed  maphash.Seed
	parts [][]byte
	count int
}

const (
	seenParts = 1 << 16
	seenBytes = 6
)

func newSeenKeys() *seenKeys {
	return &seenKeys{seed: maphash.MakeSeed(), parts: make([][]byte, seenParts)}
}

func (s *seenKeys) place(key string) (part *[]byte, rest uint64) {
	hash := maphash.String(s.seed, key)
	return &s.parts[hash>>48], hash & (1<<48 - 1)
}

func (s *seenKeys) has(key string) bool {
	part, rest := s.place(key)
	for entry := *part; len(entry) > 0; entry = entry[seenBytes:] {
		if uint64(binary.BigEndian.Uint16(entry))<<32|uint64(binary.BigEndian.Uint32(entry[2:])) == rest {
			return true
		}
	}
	return false
}

func (s *seenKeys) add(key string) {
	part, rest := s.place(key)
	if cap(*part)-len(*part) < seenBytes { // a part grows by an eighth, not to twice
		*part = slices.Grow(*part, max(4*seenBytes, len(*part)/8/seenBytes*seenBytes))
	}
	*part = binary.BigEndian.AppendUint16(*part, uint16(rest>>32))
	*part = binary.BigEndian.AppendUint32(*part, uint32(rest))
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
	return &seenLately{young: newSeenKeys(), former: newSeenKeys(), generation: seenGeneration}
}

func (s *seenLately) has(key string) bool { return s.young.has(key) || s.former.has(key) }

func (s *seenLately) add(key string) {
	if s.young.count >= s.generation {
		s.young, s.former = newSeenKeys(), s.young
	}
	s.young.add(key)
}

package redisserver

import "hash/maphash"

// Seen remembers which keys a scan gave, since some come twice: from one server soon after one another, from the masters of
// a Cluster whenever their slot moves. It keeps 64-bit hashes: among ten million keys two share one with a probability of 3
// in a million. It is not safe for concurrent use.
type Seen struct {
	seed          maphash.Seed
	generation    int // how many of the last keys are remembered at least; 0 for all
	young, former map[uint64]struct{}
}

// seenGeneration is enough for one server with a table that shrinks to a hundred-thousandth in the middle of a scan. Its SCAN
// goes through the buckets of a hash table in an order in which the buckets that become one when the table shrinks are
// neighbours. So a key that comes twice does so within what one bucket of the smaller table holds.
const seenGeneration = 1 << 17

// NewSeen returns a Seen for one scan of the servers.
func (s *Servers) NewSeen() *Seen {
	seen := NewSeenAll()
	if !s.IsCluster() {
		seen.generation = seenGeneration
	}
	return seen
}

// NewSeenAll returns a Seen that remembers all keys.
func NewSeenAll() *Seen { return &Seen{seed: maphash.MakeSeed(), young: map[uint64]struct{}{}} }

// First reports whether a key comes for the first time, and remembers it.
func (s *Seen) First(storeKey string) bool {
	if s.Has(storeKey) {
		return false
	}
	if s.generation > 0 && len(s.young) >= s.generation {
		s.young, s.former = make(map[uint64]struct{}, s.generation), s.young
	}
	s.young[maphash.String(s.seed, storeKey)] = struct{}{}
	return true
}

// Has reports whether a key has come, as far as it is remembered.
func (s *Seen) Has(storeKey string) bool {
	hash := maphash.String(s.seed, storeKey)
	_, young := s.young[hash]
	_, former := s.former[hash]
	return young || former
}

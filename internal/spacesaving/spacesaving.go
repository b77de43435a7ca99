// Package spacesaving counts occurrences of very many things, in bounded memory. It is the Space-Saving algorithm
// of Metwally, Agrawal and El Abbadi, "Efficient Computation of Frequent and Top-k Elements in Data Streams"
// (2005).
//
// Each thing has its own counter as long as there are free ones. Then a new thing takes over the lowest counter,
// and counts on from there. So frequent things always have a counter: with N occurrences in all and M counters,
// each thing with more than N/M occurrences.
package spacesaving

// Count is the number of occurrences of a thing: at least N, and at most N+Over.
type Count[K comparable, V any] struct {
	Key     K
	N, Over int64
	Last    int64 // the latest instant with which it was added
	Value   V     // what the caller knows of these N
}

// Sketch counts things. It is not safe for concurrent use.
type Sketch[K comparable, V any] struct {
	size  int
	keep  func(K) K
	place map[K]int     // the index in heap of a thing's counter
	heap  []Count[K, V] // the lowest first, by N+Over
	lost  int64         // the count of things that have lost their counter
}

// New returns a Sketch with that many counters, 1 or more. keep returns a copy of a thing for storage, for instance
// without a larger text of which it is a part.
func New[K comparable, V any](size int, keep func(K) K) *Sketch[K, V] {
	return &Sketch[K, V]{size: size, keep: keep, place: map[K]int{}}
}

// Len returns the number of things with a counter.
func (s *Sketch[K, V]) Len() int { return len(s.heap) }

// IsEmpty reports whether nothing was added since the last Drain.
func (s *Sketch[K, V]) IsEmpty() bool { return len(s.heap) == 0 && s.lost == 0 }

// Add adds n occurrences of key, the last of them at an instant. It returns the value of the key's counter, which is zero
// for a new one, and may be changed until the next call. Its time is logarithmic in the number of counters.
func (s *Sketch[K, V]) Add(key K, n, last int64) *V {
	if i, known := s.place[key]; known {
		s.heap[i].N += n
		s.heap[i].Last = max(s.heap[i].Last, last)
		return &s.heap[s.down(i)].Value
	}
	if len(s.heap) < s.size {
		key = s.keep(key)
		s.place[key] = len(s.heap)
		s.heap = append(s.heap, Count[K, V]{Key: key, N: n, Last: last})
		return &s.heap[s.up(len(s.heap)-1)].Value
	}
	lowest := &s.heap[0]
	delete(s.place, lowest.Key)
	s.lost += lowest.N
	key = s.keep(key)
	*lowest = Count[K, V]{Key: key, N: n, Over: lowest.N + lowest.Over, Last: last}
	s.place[key] = 0
	return &s.heap[s.down(0)].Value
}

// AddLost counts n of things that have no counter.
func (s *Sketch[K, V]) AddLost(n int64) { s.lost += n }

// Drain returns the counters, unordered, and the count of things without one. The sum of all N and lost is what was
// added. The sketch is empty then.
func (s *Sketch[K, V]) Drain() (counts []Count[K, V], lost int64) {
	counts, lost = s.heap, s.lost
	s.heap, s.lost = nil, 0
	clear(s.place)
	return counts, lost
}

func (s *Sketch[K, V]) isLower(i, j int) bool {
	return s.heap[i].N+s.heap[i].Over < s.heap[j].N+s.heap[j].Over
}

func (s *Sketch[K, V]) swap(i, j int) {
	s.heap[i], s.heap[j] = s.heap[j], s.heap[i]
	s.place[s.heap[i].Key], s.place[s.heap[j].Key] = i, j
}

// up moves a counter towards the lowest, to its place, which it returns.
func (s *Sketch[K, V]) up(i int) int {
	for i > 0 && s.isLower(i, (i-1)/2) {
		s.swap(i, (i-1)/2)
		i = (i - 1) / 2
	}
	return i
}

// down moves a counter away from the lowest, to its place, which it returns.
func (s *Sketch[K, V]) down(i int) int {
	for {
		child := 2*i + 1
		if child >= len(s.heap) {
			return i
		}
		if child+1 < len(s.heap) && s.isLower(child+1, child) {
			child++
		}
		if !s.isLower(child, i) {
			return i
		}
		s.swap(i, child)
		i = child
	}
}

// Package spacesaving counts occurrences of very many things, in bounded memory. It is the Space-Saving algorithm
// of Metwally, Agrawal and El Abbadi, "Efficient Computation of Frequent and Top-k Elements in Data Streams"
// (2005).
//
// Each thing has its own counter as long as there are free ones. Then a new thing takes over the lowest counter,
// and counts on from there. So frequent things always have a counter: with N occurrences in all and M counters,
// each thing with more than N/M occurrences.
package spacesaving

import "slices"

// Count is the number of occurrences of a thing: at least N, and at most N+Over. It has a note about the thing, which
// its owner keeps as long as the thing has a counter.
type Count[K comparable, V any] struct {
	Key     K
	N, Over int64
	Note    V
}

// Sketch counts things. It is not safe for concurrent use.
type Sketch[K comparable, V any] struct {
	size  int
	keep  func(K) K
	place map[K]int     // the index in heap of a thing's counter
	heap  []Count[K, V] // the lowest first, by N+Over
	total int64         // of all N
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
func (s *Sketch[K, V]) IsEmpty() bool { return s.total == 0 && s.lost == 0 }

// Add adds n occurrences of key, and returns its note, which holds until the next call. Its time is logarithmic in
// the number of counters.
func (s *Sketch[K, V]) Add(key K, n int64) *V {
	s.total += n
	i, known := s.place[key]
	switch {
	case known:
		s.heap[i].N += n
	case len(s.heap) < s.size:
		key = s.keep(key)
		s.heap = append(s.heap, Count[K, V]{Key: key, N: n})
		i = len(s.heap) - 1
		s.place[key] = i
		s.up(i)
	default:
		lowest := &s.heap[0]
		delete(s.place, lowest.Key)
		s.lost, s.total = s.lost+lowest.N, s.total-lowest.N
		key = s.keep(key)
		*lowest = Count[K, V]{Key: key, N: n, Over: lowest.N + lowest.Over}
		s.place[key] = 0
	}
	s.down(s.place[key])
	return &s.heap[s.place[key]].Note
}

// Counts returns a copy of the counters, unordered.
func (s *Sketch[K, V]) Counts() []Count[K, V] { return slices.Clone(s.heap) }

// Note returns the note of a thing that has a counter, else nil. It holds until the next call.
func (s *Sketch[K, V]) Note(key K) *V {
	if i, known := s.place[key]; known {
		return &s.heap[i].Note
	}
	return nil
}

// AddLost counts n of things that have no counter.
func (s *Sketch[K, V]) AddLost(n int64) { s.lost += n }

// Drain returns the counters, unordered, and the count of things without one. The sum of all N and lost is what was
// added. The counters begin anew: those that stay may make a note for the next time, and the others are free.
func (s *Sketch[K, V]) Drain(stays func(counted *Count[K, V]) (note V, yes bool)) (counts []Count[K, V], lost int64) {
	all, lost := s.heap, s.lost
	s.heap, s.total, s.lost = nil, 0, 0
	clear(s.place)
	for i := range all {
		if note, yes := stays(&all[i]); yes {
			s.place[all[i].Key] = len(s.heap)
			s.heap = append(s.heap, Count[K, V]{Key: all[i].Key, Note: note})
		}
	}
	return slices.DeleteFunc(all, func(c Count[K, V]) bool { return c.N == 0 }), lost
}

func (s *Sketch[K, V]) isLower(i, j int) bool {
	return s.heap[i].N+s.heap[i].Over < s.heap[j].N+s.heap[j].Over
}

func (s *Sketch[K, V]) swap(i, j int) {
	s.heap[i], s.heap[j] = s.heap[j], s.heap[i]
	s.place[s.heap[i].Key], s.place[s.heap[j].Key] = i, j
}

// up moves a counter towards the lowest, to its place.
func (s *Sketch[K, V]) up(i int) {
	for i > 0 && s.isLower(i, (i-1)/2) {
		s.swap(i, (i-1)/2)
		i = (i - 1) / 2
	}
}

// down moves a counter away from the lowest, to its place.
func (s *Sketch[K, V]) down(i int) {
	for {
		child := 2*i + 1
		if child >= len(s.heap) {
			return
		}
		if child+1 < len(s.heap) && s.isLower(child+1, child) {
			child++
		}
		if !s.isLower(child, i) {
			return
		}
		s.swap(i, child)
		i = child
	}
}

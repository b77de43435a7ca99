// Package spacesaving counts how often each of very many things comes, in bounded memory.
// It is the Space-Saving algorithm of Metwally, Agrawal and El Abbadi, "Efficient
// Computation of Frequent and Top-k Elements in Data Streams" (2005).
//
// Each thing has a counter of its own as long as there are counters. Then a thing that is
// new takes over the counter that stands lowest, and counts on from there. So what came
// often is always among the counters: of N things that came in all and M counters, each
// thing that came more than N/M times.
package spacesaving

// Count is how often a thing came: N times at least, and N+Over at most.
type Count[K comparable] struct {
	Key     K
	N, Over int64
	Last    int64 // the greatest instant that it was added with
}

// Sketch counts things. It is not safe for concurrent use.
type Sketch[K comparable] struct {
	size  int
	keep  func(K) K
	place map[K]int  // of the counter of a thing in heap
	heap  []Count[K] // the lowest first, by N+Over
	lost  int64      // what was counted for things that have lost their counter
}

// New returns a Sketch of so many counters, 1 or more. keep returns a thing as it is to be
// kept, for instance without the larger text that it is a part of.
func New[K comparable](size int, keep func(K) K) *Sketch[K] {
	return &Sketch[K]{size: size, keep: keep, place: map[K]int{}}
}

// Len returns how many things have a counter.
func (s *Sketch[K]) Len() int { return len(s.heap) }

// IsEmpty reports whether nothing was added since the last Drain.
func (s *Sketch[K]) IsEmpty() bool { return len(s.heap) == 0 && s.lost == 0 }

// Add counts that key came n times, the last of them at an instant. It looks at no more
// counters than a tree of them is high.
func (s *Sketch[K]) Add(key K, n, last int64) {
	if i, known := s.place[key]; known {
		s.heap[i].N += n
		s.heap[i].Last = max(s.heap[i].Last, last)
		s.down(i)
		return
	}
	if len(s.heap) < s.size {
		key = s.keep(key)
		s.place[key] = len(s.heap)
		s.heap = append(s.heap, Count[K]{Key: key, N: n, Last: last})
		s.up(len(s.heap) - 1)
		return
	}
	lowest := &s.heap[0]
	delete(s.place, lowest.Key)
	s.lost += lowest.N
	key = s.keep(key)
	*lowest = Count[K]{Key: key, N: n, Over: lowest.N + lowest.Over, Last: last}
	s.place[key] = 0
	s.down(0)
}

// AddLost counts n of things that have no counter.
func (s *Sketch[K]) AddLost(n int64) { s.lost += n }

// Drain returns the counters, in no order, and how much was counted for things that have
// none any more. So what was added is the sum of all N and of lost. The sketch is empty then.
func (s *Sketch[K]) Drain() (counts []Count[K], lost int64) {
	counts, lost = s.heap, s.lost
	s.heap, s.lost = nil, 0
	clear(s.place)
	return counts, lost
}

func (s *Sketch[K]) isLower(i, j int) bool {
	return s.heap[i].N+s.heap[i].Over < s.heap[j].N+s.heap[j].Over
}

func (s *Sketch[K]) swap(i, j int) {
	s.heap[i], s.heap[j] = s.heap[j], s.heap[i]
	s.place[s.heap[i].Key], s.place[s.heap[j].Key] = i, j
}

// up moves a counter towards the lowest, to where it belongs.
func (s *Sketch[K]) up(i int) {
	for i > 0 && s.isLower(i, (i-1)/2) {
		s.swap(i, (i-1)/2)
		i = (i - 1) / 2
	}
}

// down moves a counter away from the lowest, to where it belongs.
func (s *Sketch[K]) down(i int) {
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

// Package spacesaving counts occurrences of very many things, in bounded memory. It is the Space-Saving algorithm
// of Metwally, Agrawal and El Abbadi, "Efficient Computation of Frequent and Top-k Elements in Data Streams"
// (2005).
//
// Each thing has its own counter as long as there are free ones. Then a new thing takes over the lowest counter,
// and counts on from there. So frequent things always have a counter: with N occurrences in all and M counters,
// each thing with more than N/M occurrences.
package spacesaving

import (
	"container/heap"
	"slices"
)

// Count is the number of occurrences of a thing: at least N, and at most N+Over. It has a note about the thing, which
// its owner keeps as long as the thing has a counter.
type Count[K comparable, V any] struct {
	Key     K
	N, Over int64
	Note    V
}

// Sketch counts things. It is not safe for concurrent use.
type Sketch[K comparable, V any] struct {
	size     int
	keep     func(K) K
	counters counters[K, V]
	total    int64 // of all N
	lost     int64 // the count of things that have lost their counter
}

// counters are a heap, the lowest first.
type counters[K comparable, V any] struct {
	list  []Count[K, V]
	place map[K]int // the index in list of a thing's counter
}

func (c *counters[K, V]) Len() int { return len(c.list) }

func (c *counters[K, V]) Less(i, j int) bool {
	return c.list[i].N+c.list[i].Over < c.list[j].N+c.list[j].Over
}

func (c *counters[K, V]) Swap(i, j int) {
	c.list[i], c.list[j] = c.list[j], c.list[i]
	c.place[c.list[i].Key], c.place[c.list[j].Key] = i, j
}

func (c *counters[K, V]) Push(counter any) { c.list = append(c.list, counter.(Count[K, V])) }

func (c *counters[K, V]) Pop() any { panic("a counter is taken over, not removed") }

// New returns a Sketch with that many counters, 1 or more. keep returns a copy of a thing for storage, for instance
// without a larger text of which it is a part.
func New[K comparable, V any](size int, keep func(K) K) *Sketch[K, V] {
	return &Sketch[K, V]{size: size, keep: keep, counters: counters[K, V]{place: map[K]int{}}}
}

// IsEmpty reports whether nothing was added since the last Drain.
func (s *Sketch[K, V]) IsEmpty() bool { return s.total == 0 && s.lost == 0 }

// Add adds n occurrences of key, and returns its note, which holds until the next call. Its time is logarithmic in
// the number of counters.
func (s *Sketch[K, V]) Add(key K, n int64) *V {
	s.total += n
	c := &s.counters
	i, known := c.place[key]
	if !known {
		counter := Count[K, V]{Key: s.keep(key)}
		if i = len(c.list); i < s.size {
			c.list = append(c.list, counter)
		} else {
			i = 0
			lowest := c.list[i]
			delete(c.place, lowest.Key)
			s.lost, s.total = s.lost+lowest.N, s.total-lowest.N
			counter.Over = lowest.N + lowest.Over
			c.list[i] = counter
		}
		c.place[counter.Key] = i
	}
	c.list[i].N += n
	heap.Fix(c, i)
	return s.Note(key)
}

// Note returns the note of a thing that has a counter, else nil. It holds until the next call.
func (s *Sketch[K, V]) Note(key K) *V {
	if i, known := s.counters.place[key]; known {
		return &s.counters.list[i].Note
	}
	return nil
}

// AddLost counts n of things that have no counter.
func (s *Sketch[K, V]) AddLost(n int64) { s.lost += n }

// Drain returns the counters, unordered, and the count of things without one. The sum of all N and lost is what was
// added. The counters begin anew: those that stay may make a note for the next time, and the others are free.
func (s *Sketch[K, V]) Drain(stays func(counted *Count[K, V]) (note V, yes bool)) (counts []Count[K, V], lost int64) {
	c := &s.counters
	all, lost := c.list, s.lost
	c.list, s.total, s.lost = nil, 0, 0
	clear(c.place)
	for i := range all {
		if note, yes := stays(&all[i]); yes {
			c.place[all[i].Key] = len(c.list)
			c.list = append(c.list, Count[K, V]{Key: all[i].Key, Note: note})
		}
	}
	return slices.DeleteFunc(all, func(c Count[K, V]) bool { return c.N == 0 }), lost
}

package store

import "slices"

// unitLog is the times of units, oldest first, in a ring. Units taken at one
// instant share an entry, and every entry carries the running sum, so that a
// count over any range is one subtraction and a search takes log n steps.
// The zero unitLog is empty.
type unitLog struct {
	ring   []logEntry // its length is a power of two, or zero
	head   int        // index of the oldest entry
	length int        // entries in use
	base   int64      // running sum before the oldest entry
}

// logEntry says that some units were taken at one instant.
type logEntry struct {
	at  Instant
	sum int64 // units up to and including this entry, since the log began
}

func (l *unitLog) entry(i int) *logEntry { return &l.ring[(l.head+i)&(len(l.ring)-1)] }

// sumBefore returns the running sum before entry i.
func (l *unitLog) sumBefore(i int) int64 {
	if i == 0 {
		return l.base
	}
	return l.entry(i - 1).sum
}

// firstWhere returns the least index for which holds is true, or length if it is never true; holds must be false up
// to some index and true from it on. The steps double from the oldest entry, since the answer is usually near it.
func (l *unitLog) firstWhere(holds func(*logEntry) bool) int {
	low, high := 0, 1 // below low it is false
	for high <= l.length && !holds(l.entry(high-1)) {
		low, high = high, high*2
	}
	high = min(high-1, l.length) // true at high, if there is an entry
	for low < high {
		if middle := int(uint(low+high) / 2); holds(l.entry(middle)) {
			high = middle
		} else {
			low = middle + 1
		}
	}
	return low
}

func (l *unitLog) indexAfter(at Instant) int {
	return l.firstWhere(func(e *logEntry) bool { return e.at > at })
}

// unitsAfter counts the units taken later than at.
func (l *unitLog) unitsAfter(at Instant) int64 {
	return l.sumBefore(l.length) - l.sumBefore(l.indexAfter(at))
}

// unitsOf returns the units of entry i.
func (l *unitLog) unitsOf(i int) int64 { return l.entry(i).sum - l.sumBefore(i) }

// indexOfUnitFromNewest returns the entry of the unit that has exactly n newer ones,
// if there are more than n units.
func (l *unitLog) indexOfUnitFromNewest(n int64) (index int, found bool) {
	sum := l.sumBefore(l.length) - n
	if sum <= l.base {
		return 0, false
	}
	return l.firstWhere(func(e *logEntry) bool { return e.sum >= sum }), true
}

// dropThrough forgets the units taken at that instant or before.
func (l *unitLog) dropThrough(at Instant) {
	dropped := l.indexAfter(at)
	l.base = l.sumBefore(dropped)
	l.length -= dropped
	if l.length == 0 {
		*l = unitLog{ring: l.ring}
		return
	}
	l.head = (l.head + dropped) & (len(l.ring) - 1)
}

// add appends units taken at that instant, which is not before the newest.
func (l *unitLog) add(units int64, at Instant) {
	if l.length > 0 {
		if newest := l.entry(l.length - 1); newest.at == at {
			newest.sum += units
			return
		}
	}
	sum := l.sumBefore(l.length) + units
	if l.length == len(l.ring) || l.length*8 < len(l.ring) && len(l.ring) > minRing {
		l.resize()
	}
	l.length++
	*l.entry(l.length - 1) = logEntry{at, sum}
}

const minRing = 4

// resize makes the ring twice as long as what is in it, which lets it grow when
// full and shrink when mostly empty.
func (l *unitLog) resize() {
	size := minRing
	for size < 2*l.length {
		size *= 2
	}
	ring := make([]logEntry, size)
	for i := range l.length {
		ring[i] = *l.entry(i)
	}
	l.ring, l.head = ring, 0
}

// removeNewest forgets that many of the newest units, or all there are.
func (l *unitLog) removeNewest(units int64) {
	for l.length > 0 && units > 0 {
		newest := l.entry(l.length - 1)
		here := newest.sum - l.sumBefore(l.length-1)
		if here > units {
			newest.sum -= units
			return
		}
		units -= here
		l.length--
	}
}

// ringLayout is how a log lies in a record:
//
//	head, length  indexSize bytes each
//	base          sumSize bytes
//	the ring      entries of atSize bytes that say when, and sumSize bytes of sum
//
// The entries in use are length many from the index head on, the oldest first; what
// else is in the ring means nothing. Numbers run modulo what their bytes hold: of sums
// only differences count, those are at most maxUnits; and when is computed back from
// the record's time.
type ringLayout struct {
	indexSize, atSize, sumSize int
	maxUnits                   int64
}

func (l *ringLayout) entrySize() int { return l.atSize + l.sumSize }

func (l *ringLayout) mask(size int) int64 { return 1<<(8*size) - 1 }

func (l *ringLayout) append(buf []byte, log *unitLog) []byte {
	buf = slices.Grow(buf, 2*l.indexSize+l.sumSize+log.length*l.entrySize())
	buf = appendUint(buf, 0, l.indexSize)
	buf = appendUint(buf, int64(log.length), l.indexSize)
	buf = appendUint(buf, 0, l.sumSize)
	for i := range log.length {
		entry := log.entry(i)
		buf = appendUint(buf, int64(entry.at), l.atSize)
		buf = appendUint(buf, entry.sum-log.base, l.sumSize)
	}
	return buf
}

// read reads the ring that is the rest of a record. No entry may be older than
// oldest or newer than newest.
func (l *ringLayout) read(r *recordReader, oldest, newest int64) (log *unitLog, problem string) {
	head, length, base := r.uint(l.indexSize), r.uint(l.indexSize), r.uint(l.sumSize)
	capacity := int64(len(r.rest) / l.entrySize())
	ring := r.bytes(int(capacity) * l.entrySize())
	if length > capacity || head >= max(1, capacity) {
		return nil, "its ring does not fit its length"
	}
	log = new(unitLog)
	sum := int64(0)
	for i := range length {
		e := recordReader{rest: ring[int((head+i)%capacity)*l.entrySize():]}
		at, entrySum := newest-((newest-e.uint(l.atSize))&l.mask(l.atSize)), e.uint(l.sumSize)
		units := (entrySum - base) & l.mask(l.sumSize)
		sum, base = sum+units, entrySum
		if units == 0 || units > MaxCount || sum > l.maxUnits || at < oldest {
			return nil, "its ring holds impossible entries"
		}
		if log.length > 0 && Instant(at) < log.entry(log.length-1).at {
			return nil, "its ring is out of order"
		}
		log.add(units, Instant(at))
	}
	return log, ""
}

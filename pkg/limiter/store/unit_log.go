package store

import (
	"slices"
	"sort"
)

// unitLog is the times of units, oldest first. Units of one instant share an entry, and every entry has the running
// sum.
type unitLog struct {
	entries []logEntry // the first of which are forgotten
	head    int        // how many
	base    int64      // running sum before the oldest entry
}

// logEntry says that some units were taken at one instant.
type logEntry struct {
	at  Instant
	sum int64 // units up to and including this entry, since the log began
}

func (l *unitLog) length() int { return len(l.entries) - l.head }

func (l *unitLog) entry(i int) *logEntry { return &l.entries[l.head+i] }

// sumBefore returns the running sum before entry i.
func (l *unitLog) sumBefore(i int) int64 {
	if i == 0 {
		return l.base
	}
	return l.entry(i - 1).sum
}

func (l *unitLog) sum() int64 { return l.sumBefore(l.length()) }

func (l *unitLog) indexAfter(at Instant) int {
	return l.firstWhere(func(e *logEntry) bool { return e.at > at })
}

// firstWhere returns the least index from which on holds is true, or the length. It is usually near 0.
func (l *unitLog) firstWhere(holds func(*logEntry) bool) int {
	end := 1
	for end < l.length() && !holds(l.entry(end-1)) {
		end *= 2
	}
	return sort.Search(min(end, l.length()), func(i int) bool { return holds(l.entry(i)) })
}

// unitsOf returns the units of entry i.
func (l *unitLog) unitsOf(i int) int64 { return l.entry(i).sum - l.sumBefore(i) }

// indexOfUnitFromNewest returns the entry of the unit that has exactly n newer ones, if there are more than n units.
func (l *unitLog) indexOfUnitFromNewest(n int64) (index int, found bool) {
	sum := l.sum() - n
	if sum <= l.base {
		return 0, false
	}
	return l.firstWhere(func(e *logEntry) bool { return e.sum >= sum }), true
}

// dropThrough forgets the units taken at that instant or before.
func (l *unitLog) dropThrough(at Instant) {
	dropped := l.indexAfter(at)
	l.base = l.sumBefore(dropped)
	if l.head += dropped; l.head > len(l.entries)/2 {
		l.entries, l.head = slices.Delete(l.entries, 0, l.head), 0
	}
	if l.length() == 0 {
		l.base = 0
	}
}

// add appends units taken at that instant, which is not before the newest.
func (l *unitLog) add(units int64, at Instant) {
	sum := l.sum() + units
	if n := l.length(); n > 0 && l.entry(n-1).at == at {
		l.entry(n - 1).sum = sum
		return
	}
	if live := l.length(); cap(l.entries) > max(minLog, 8*live) { // its memory follows what is in use
		l.entries, l.head = append(make([]logEntry, 0, 2*live+1), l.entries[l.head:]...), 0
	}
	l.entries = append(l.entries, logEntry{at, sum})
}

// minLog is up to how many entries a log is not made smaller.
const minLog = 8

// removeNewest forgets that many of the newest units, or all there are.
func (l *unitLog) removeNewest(units int64) {
	left := l.sum() - units
	for n := l.length(); n > 0 && left < l.entry(n-1).sum; n-- {
		if left > l.sumBefore(n-1) {
			l.entry(n - 1).sum = left
			return
		}
		l.entries = l.entries[:len(l.entries)-1]
	}
}

// ringLayout is how a log lies in a record:
//
//	head, length  indexSize bytes each
//	base          sumSize bytes
//	the ring      entries of atSize bytes that say when, and sumSize bytes of sum
//
// The entries in use are length many from the index head on, the oldest first; what else is in the ring means nothing.
// Numbers run modulo what their bytes hold: of sums only differences count, those are at most maxUnits; and when is
// computed back from the record's time.
type ringLayout struct {
	indexSize, atSize, sumSize int
	maxUnits                   int64
}

func (l *ringLayout) entrySize() int { return l.atSize + l.sumSize }

func (l *ringLayout) append(buf []byte, log *unitLog) []byte {
	buf = slices.Grow(buf, 2*l.indexSize+l.sumSize+log.length()*l.entrySize())
	buf = appendUint(buf, 0, l.indexSize)
	buf = appendUint(buf, int64(log.length()), l.indexSize)
	buf = appendUint(buf, 0, l.sumSize)
	for i := range log.length() {
		entry := log.entry(i)
		buf = appendUint(buf, int64(entry.at), l.atSize)
		buf = appendUint(buf, entry.sum-log.base, l.sumSize)
	}
	return buf
}

// read reads the ring that is the rest of a record. No entry may be older than oldest or newer than newest.
func (l *ringLayout) read(r *recordReader, oldest, newest int64) (log *unitLog, problem string) {
	mask := func(size int) int64 { return 1<<(8*size) - 1 }
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
		at, entrySum := newest-((newest-e.uint(l.atSize))&mask(l.atSize)), e.uint(l.sumSize)
		units := (entrySum - base) & mask(l.sumSize)
		sum, base = sum+units, entrySum
		if units == 0 || units > MaxCount || sum > l.maxUnits || at < oldest {
			return nil, "its ring holds impossible entries"
		}
		if n := log.length(); n > 0 && Instant(at) < log.entry(n-1).at {
			return nil, "its ring is out of order"
		}
		log.add(units, Instant(at))
	}
	return log, ""
}

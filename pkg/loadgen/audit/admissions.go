package audit

import (
	"encoding/binary"

	"github.com/limitctl/limitctl/pkg/limiter"
)

// admissions is what was admitted lately, oldest first. A long period under much load
// holds tens of millions of them, so each takes few bytes: the time since the one before,
// in microseconds, shifted by one bit. That bit says whether the number of units follows,
// because it is not 1.
type admissions struct {
	chunks [][]byte
	read   int // of the first chunk
	// oldest is the instant of the first, newest that of the last. They show whether the
	// first must still be kept, without reading the chunks, which are seldom in the
	// processor's cache.
	oldest, newest limiter.Instant
	units          int64
}

const (
	smallChunk = 16 // most keys have few
	largeChunk = 512
	// maxEncoded is the most bytes that one admission takes.
	maxEncoded = 2 * binary.MaxVarintLen64
)

// add appends one; at is not before the newest.
func (l *admissions) add(at limiter.Instant, units int64) {
	if l.units == 0 {
		l.oldest, l.newest = at, at // so that the first one's difference is 0
	}
	var buf [maxEncoded]byte
	step := uint64(at-l.newest) << 1
	if units != 1 {
		step |= 1
	}
	n := binary.PutUvarint(buf[:], step)
	if units != 1 {
		n += binary.PutUvarint(buf[n:], uint64(units))
	}
	last := len(l.chunks) - 1
	switch {
	case last < 0:
		l.chunks = append(l.chunks, make([]byte, 0, smallChunk))
		last = 0
	case cap(l.chunks[last])-len(l.chunks[last]) >= n:
	case cap(l.chunks[last]) < largeChunk:
		// A small chunk grows by little. With many keys, unused room would otherwise take
		// most of the memory.
		small := l.chunks[last]
		l.chunks[last] = append(make([]byte, 0, min(cap(small)+cap(small)/4+maxEncoded, largeChunk)), small...)
	default:
		l.chunks = append(l.chunks, make([]byte, 0, largeChunk))
		last++
	}
	l.chunks[last] = append(l.chunks[last], buf[:n]...)
	l.newest = at
	l.units += units
}

// forget drops those up to and including an instant.
func (l *admissions) forget(through limiter.Instant) {
	for l.units > 0 && l.oldest <= through {
		chunk := l.chunks[0][l.read:]
		step, n := binary.Uvarint(chunk)
		units := uint64(1)
		if step&1 != 0 {
			var m int
			units, m = binary.Uvarint(chunk[n:])
			n += m
		}
		l.units -= int64(units)
		if l.read += n; l.read == len(l.chunks[0]) {
			l.drop()
		}
		if l.units > 0 {
			next, _ := binary.Uvarint(l.chunks[0][l.read:])
			l.oldest += limiter.Instant(next >> 1)
		}
	}
}

// drop removes the first chunk. If it is the only one, it is kept for reuse.
func (l *admissions) drop() {
	l.read = 0
	if len(l.chunks) == 1 {
		l.chunks[0] = l.chunks[0][:0]
		return
	}
	l.chunks[0] = nil
	l.chunks = l.chunks[1:]
}

package audit

import (
	"encoding/binary"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// admissions are those of one key in the last period, in the order of their instants. The
// oldest is here, since many keys have no other. The rest lie in blocks: of each the time
// since the one before, and the units if they are not 1.
type admissions struct {
	// oldest is the instant of the first, and first its units.
	oldest store.Instant
	units  int64 // of all
	first  uint32
	// head and tail are the first and the last block by their numbers, 0 if there is none. read
	// is how much of the first one was read, and filled how much of the last one is in use.
	head, tail   uint32
	read, filled uint8
}

// block is a small piece of memory of a list of admissions.
type block struct {
	next uint32
	data [blockSize]byte
}

const (
	blockSize = 28
	pageSize  = 1 << 10 // blocks
	// maxEncoded is the most bytes that one admission takes.
	maxEncoded = 2 * binary.MaxVarintLen64
)

// blocks is the memory of all keys' admissions. Blocks that are not needed any more are used
// again. They have numbers from 1 on.
type blocks struct {
	pages [][]block
	used  uint32 // how many were ever taken
	free  uint32 // the first that can be used again, 0 if there is none
}

func (b *blocks) at(number uint32) *block { return &b.pages[(number-1)/pageSize][(number-1)%pageSize] }

// take returns the number of an empty block.
func (b *blocks) take() uint32 {
	if number := b.free; number != 0 {
		b.free = b.at(number).next
		b.at(number).next = 0
		return number
	}
	if b.used == uint32(len(b.pages))*pageSize {
		b.pages = append(b.pages, make([]block, pageSize))
	}
	b.used++
	return b.used
}

func (b *blocks) giveBack(number uint32) {
	b.at(number).next = b.free
	b.free = number
}

// add adds an admission that is not before the newest, which was at an instant.
func (l *admissions) add(b *blocks, at, newest store.Instant, units int64) {
	if l.units == 0 {
		l.oldest, l.first, l.units = at, uint32(units), units
		return
	}
	var buf [maxEncoded]byte
	step := uint64(at-newest) << 1
	if units != 1 {
		step |= 1
	}
	n := binary.PutUvarint(buf[:], step)
	if units != 1 {
		n += binary.PutUvarint(buf[n:], uint64(units))
	}
	l.units += units
	if l.head == 0 {
		l.head = b.take()
		l.tail, l.read, l.filled = l.head, 0, 0
	}
	for rest := buf[:n]; ; {
		copied := copy(b.at(l.tail).data[l.filled:], rest)
		l.filled += uint8(copied)
		if rest = rest[copied:]; len(rest) == 0 {
			return
		}
		next := b.take()
		b.at(l.tail).next = next
		l.tail, l.filled = next, 0
	}
}

// forget drops the admissions through an instant.
func (l *admissions) forget(b *blocks, through store.Instant) {
	for l.units > 0 && l.oldest <= through {
		l.units -= int64(l.first)
		if l.units == 0 {
			break
		}
		r := reader{b, l.head, l.read}
		step, units := r.next()
		for l.head != r.block {
			done := l.head
			l.head = b.at(done).next
			b.giveBack(done)
		}
		l.read = r.read
		l.oldest += step
		l.first = units
	}
	if l.units == 0 && l.head != 0 {
		for l.head != 0 {
			done := l.head
			l.head = b.at(done).next
			b.giveBack(done)
		}
		l.tail = 0
	}
}

// each calls do for each admission, the oldest first, until it returns false.
func (l *admissions) each(b *blocks, do func(at store.Instant, units int64) (goOn bool)) {
	if l.units == 0 {
		return
	}
	left, at, units := l.units, l.oldest, l.first
	r := reader{b, l.head, l.read}
	for do(at, int64(units)) {
		if left -= int64(units); left == 0 {
			return
		}
		var step store.Instant
		step, units = r.next()
		at += step
	}
}

// reader reads admissions out of blocks.
type reader struct {
	blocks *blocks
	block  uint32
	read   uint8
}

// next returns the time since the admission before, and the units.
func (r *reader) next() (step store.Instant, units uint32) {
	n := r.number()
	if n&1 == 0 {
		return store.Instant(n >> 1), 1
	}
	return store.Instant(n >> 1), uint32(r.number())
}

func (r *reader) number() (n uint64) {
	for shift := 0; ; shift += 7 {
		if r.read == blockSize {
			r.block, r.read = r.blocks.at(r.block).next, 0
		}
		b := r.blocks.at(r.block).data[r.read]
		r.read++
		if n |= uint64(b&0x7f) << shift; b < 0x80 {
			return n
		}
	}
}

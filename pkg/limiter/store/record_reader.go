package store

import (
	"encoding/binary"
	"sync"
)

const usageOutOfRange = "its usage is out of range"

// recordReader reads unsigned numbers from the front of a record. Past its end it returns zeros and sets short.
type recordReader struct {
	rest     []byte
	short    bool
	overfull bool // the record says so
}

// recordReaders saves an allocation for each record: rules are called through an interface, so a reader cannot be on
// the stack.
var recordReaders = sync.Pool{New: func() any { return new(recordReader) }}

func (r *recordReader) bytes(n int) []byte {
	if len(r.rest) < n {
		r.rest, r.short = nil, true
		return nil
	}
	field := r.rest[:n]
	r.rest = r.rest[n:]
	return field
}

func (r *recordReader) uint(size int) (n int64) {
	for _, b := range r.bytes(size) {
		n = n<<8 | int64(b)
	}
	return n
}

// appendUint appends n in that many bytes, the last of its eight.
func appendUint(buf []byte, n int64, size int) []byte {
	var bytes [8]byte
	binary.BigEndian.PutUint64(bytes[:], uint64(n))
	return append(buf, bytes[8-size:]...)
}

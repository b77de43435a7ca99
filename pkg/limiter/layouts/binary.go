package layouts

import "encoding/binary"

// binaryReader reads a binary value from its beginning. It never reads behind the end: then it
// has failed, and returns zeros from there on. What it returns is a part of the value, so no
// length in a value makes it take more memory.
type binaryReader struct {
	rest   []byte
	failed bool
}

// next returns the next n bytes.
func (r *binaryReader) next(n int) []byte {
	if r.failed || n < 0 || n > len(r.rest) {
		r.failed, r.rest = true, nil
		return nil
	}
	taken := r.rest[:n]
	r.rest = r.rest[n:]
	return taken
}

// byte returns the next byte.
func (r *binaryReader) byte() byte {
	if b := r.next(1); b != nil {
		return b[0]
	}
	return 0
}

// int32 returns the next four bytes, the highest first.
func (r *binaryReader) int32() int32 {
	if b := r.next(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

// int64 returns the next eight bytes, the highest first.
func (r *binaryReader) int64() int64 {
	if b := r.next(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

// flag returns the next byte, which has to be 0 or 1.
func (r *binaryReader) flag() bool {
	b := r.byte()
	if b > 1 {
		r.failed = true
	}
	return b == 1
}

// atEnd reports whether everything was read, and nothing behind the end.
func (r *binaryReader) atEnd() bool { return !r.failed && len(r.rest) == 0 }

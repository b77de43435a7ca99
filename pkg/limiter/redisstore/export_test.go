package redisstore

import (
	"encoding/binary"
	"time"
)

// SetAhead lets s believe that the server's clock is ahead of ours.
func (s *Store) SetAhead(d time.Duration) { s.ahead.Store(d.Milliseconds()) }

// NewerDump is a dump as a server of a later version would make it.
func NewerDump(dump []byte) []byte {
	newer := append([]byte(nil), dump...)
	end := len(newer)
	binary.LittleEndian.PutUint16(newer[end-10:], 99)
	binary.LittleEndian.PutUint64(newer[end-8:], dumpSum(newer[:end-8]))
	return newer
}

package redisstore

import (
	"encoding/binary"
	"flag"
	"hash/crc64"
	"os"
	"testing"
	"time"
)

// SetAhead lets s believe that the server's clock is ahead of ours.
func (s *Store) SetAhead(d time.Duration) { s.lanes.Ahead.Store(d.Milliseconds()) }

// Load returns what the lane of a key is doing: exchanges under way, calls that wait, exchanges nobody waits for.
func (s *Store) Load(key string) (busy, waiting, abandoned int) { return s.lanes.Load(key) }

// NewerDump is a dump as a server of a later version would make it.
func NewerDump(dump []byte) []byte {
	newer := append([]byte(nil), dump...)
	end := len(newer)
	binary.LittleEndian.PutUint16(newer[end-10:], 99)
	binary.LittleEndian.PutUint64(newer[end-8:], ^crc64.Update(^uint64(0), crc64.MakeTable(0x95ac9329ac4bc9b5),
		newer[:end-8]))
	return newer
}

// Most tests that go on side by side wait: a Cluster takes two seconds to form, and servers hang. So
// there are more of them at once than processors, unless the command line says how many.
func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", "6"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

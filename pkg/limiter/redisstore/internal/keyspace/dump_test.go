package keyspace

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/limitctl/limitctl/internal/redistest"
)

// A string that is put into the form of DUMP here is taken by RESTORE, and read.
func TestDumpsOfText(t *testing.T) {
	server := redistest.Start(t)
	for _, text := range []string{"", "0", "-1", "127", "128", "-32768", "70000", "-2147483648", "9223372036854775807",
		"1.5", "hello",
		strings.Repeat("x", 63), strings.Repeat("ab", 32), "\x00\xff",
		strings.Repeat("q", 16383), strings.Repeat("r", 16384), strings.Repeat("s", 100_000)} {
		dump := dumpText([]byte(text))
		server.Do("RESTORE", "k", 0, dump, "REPLACE")
		if got := server.Do("GET", "k"); got != text {
			t.Errorf("%.20q is restored as %.20q", text, got)
		}
		if got, ok := dumpedText(dump); !ok || string(got) != text {
			t.Errorf("%.20q is read as %.20q, %v", text, got, ok)
		}
		for i := range min(len(dump), 40) {
			broken := append([]byte(nil), dump...)
			broken[i]++
			if _, ok := dumpedText(broken); ok {
				t.Errorf("%.20q is read although it is damaged", text)
			}
			dumpedText(dump[:i])
			// As damaged as it is, let its sum be right.
			binary.LittleEndian.PutUint64(broken[len(broken)-8:], dumpSum(broken[:len(broken)-8]))
			if got, ok := dumpedText(broken); ok && len(got) > len(broken)+20 {
				t.Errorf("%d bytes are read from %d", len(got), len(broken))
			}
		}
	}
}

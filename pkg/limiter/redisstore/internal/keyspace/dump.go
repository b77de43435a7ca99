package keyspace

import (
	"encoding/binary"
	"hash/crc64"
	"strconv"
)

// A string is read by GETRANGE, and put into the form that DUMP gives it here: the server is
// spared a second look at each value, what is kept is what was judged, and it can be brought
// back to any server, also an older one. The form is that of Redis' files: a byte for the
// type, the string after its length, the version of the form in two bytes and a CRC in eight.

// The parts of a dump.
const (
	dumpVersion = 9 // that of Redis 5; servers take all that are not newer than theirs
	dumpEnd     = 2 + 8
	dumpString  = 0
)

// dumpTable is that of the CRC, which begins with 0 where package crc64 begins with all bits
// set.
var dumpTable = crc64.MakeTable(0x95ac9329ac4bc9b5)

func dumpSum(text []byte) uint64 { return ^crc64.Update(^uint64(0), dumpTable, text) }

// dumpText returns what DUMP could return of a string.
func dumpText(text []byte) []byte {
	dump := make([]byte, 0, 1+5+len(text)+dumpEnd)
	dump = append(dump, dumpString)
	switch n := len(text); {
	case n < 1<<6:
		dump = append(dump, byte(n))
	case n < 1<<14:
		dump = append(dump, 0x40|byte(n>>8), byte(n))
	default:
		dump = binary.BigEndian.AppendUint32(append(dump, 0x80), uint32(n))
	}
	dump = binary.LittleEndian.AppendUint16(append(dump, text...), dumpVersion)
	return binary.LittleEndian.AppendUint64(dump, dumpSum(dump))
}

// soundDump reports whether a dump is whole.
func soundDump(dump []byte) bool {
	end := len(dump) - 8
	return len(dump) > dumpEnd && binary.LittleEndian.Uint64(dump[end:]) == dumpSum(dump[:end])
}

// versionOf is the version of the form of a sound dump, which tells how new the server was.
func versionOf(dump []byte) int { return int(binary.LittleEndian.Uint16(dump[len(dump)-dumpEnd:])) }

// dumpedText returns the string that a dump holds. ok is false if the dump is not sound, is of
// something else, or holds the string compressed.
func dumpedText(dump []byte) (text []byte, ok bool) {
	if !soundDump(dump) || dump[0] != dumpString {
		return nil, false
	}
	rest := dump[1 : len(dump)-dumpEnd]
	if len(rest) == 0 {
		return nil, false
	}
	number := func(size int, value func([]byte) int64) ([]byte, bool) {
		if len(rest) != 1+size {
			return nil, false
		}
		return strconv.AppendInt(nil, value(rest[1:]), 10), true
	}
	var length, head int
	switch first := rest[0]; {
	case first>>6 == 0:
		length, head = int(first), 1
	case first>>6 == 1 && len(rest) >= 2:
		length, head = int(first&0x3f)<<8|int(rest[1]), 2
	case first == 0x80 && len(rest) >= 5:
		length, head = int(binary.BigEndian.Uint32(rest[1:])), 5
	case first == 0xc0:
		return number(1, func(b []byte) int64 { return int64(int8(b[0])) })
	case first == 0xc1:
		return number(2, func(b []byte) int64 { return int64(int16(binary.LittleEndian.Uint16(b))) })
	case first == 0xc2:
		return number(4, func(b []byte) int64 { return int64(int32(binary.LittleEndian.Uint32(b))) })
	default:
		return nil, false
	}
	return rest[head:], len(rest)-head == length
}

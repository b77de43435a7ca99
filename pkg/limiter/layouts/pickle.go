package layouts

import (
	"encoding/binary"
	"errors"
	"math"
)

// errNotPickle is of a string that is not a list of numbers, as Python's module pickle writes it.
var errNotPickle = errors.New("not a pickled list of times")

// The opcodes of pickle that a list of floating-point numbers is written with, in its protocols
// 2 to 5. All others are refused, so that nothing of what they mean can happen.
const (
	pickleProto      = 0x80 // and a byte: the protocol
	pickleFrame      = 0x95 // and eight bytes: how long the frame is
	pickleList       = ']'
	pickleMemoize    = 0x94
	pickleBinput     = 'q' // and a byte: where the list is remembered
	pickleLongBinput = 'r' // and four bytes
	pickleMark       = '('
	pickleFloat      = 'G' // and eight bytes, the highest first
	pickleAppend     = 'a'
	pickleAppends    = 'e'
	pickleStop       = '.'
)

// parsePickledTimes reads a list of numbers. whole is false if the text ends before the list
// does, which is fine if only the beginning of a long string was read: then the numbers are the
// first of the list.
func parsePickledTimes(text []byte) (times []float64, whole bool, err error) {
	r := binaryReader{rest: text}
	if r.byte() != pickleProto {
		return nil, false, errNotPickle
	}
	if protocol := r.byte(); protocol < 2 || protocol > 5 {
		return nil, false, errNotPickle
	}
	var isList, marked bool
	waiting := 0 // numbers that are not in the list yet
	for len(r.rest) > 0 {
		opcode := r.byte()
		ok := isList
		switch opcode {
		case pickleFrame:
			r.next(8)
			ok = true
		case pickleList:
			ok, isList = !isList, true
		case pickleMemoize:
		case pickleBinput:
			r.next(1)
		case pickleLongBinput:
			r.next(4)
		case pickleMark:
			ok, marked = ok && !marked && waiting == 0, true
		case pickleFloat:
			if b := r.next(8); b != nil {
				ok = ok && (marked || waiting == 0)
				times = append(times, math.Float64frombits(binary.BigEndian.Uint64(b)))
				waiting++
			}
		case pickleAppend:
			ok, waiting = ok && !marked && waiting == 1, 0
		case pickleAppends:
			ok = ok && marked
			marked, waiting = false, 0
		case pickleStop:
			if !ok || marked || waiting > 0 || !r.atEnd() {
				return nil, false, errNotPickle
			}
			return times, true, nil
		default:
			ok = false
		}
		if !ok {
			return nil, false, errNotPickle
		}
	}
	return times, false, nil
}

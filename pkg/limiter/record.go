package limiter

import (
	"encoding/binary"
	"fmt"
	"time"
)

// A record is a State as bytes, the value stores keep under a key. All numbers
// are big-endian and unsigned; an instant or a period has 7 bytes, which hold
// microseconds until the year 4253.
//
//	offset size
//	     0    2  "RL"
//	     2    1  format version, 1
//	     3    1  algorithm
//	     4    4  count           \
//	     8    4  burst            } the limit last applied
//	    12    7  period in µs    /
//	    19    7  instant of the last charge
//	    26       state:
//	             token-bucket, leaky-bucket: 4 units, 7 fraction
//	             fixed-window:               4 units
//	             sliding-counter:            4 units, 4 previous units
//	             sliding-log:                4 head, 4 length, 3 base sum, then the
//	                                         ring of entries: 7 instant, 3 sum
//
// The sums of a log's entries run modulo 2²⁴: only differences count, and those
// are at most [MaxSlidingLogCount]. lua/record.lua reads and writes the same.
const (
	recordMagic   = "RL"
	recordVersion = 1

	recordHeaderSize = 26
	logHeaderSize    = recordHeaderSize + 11
	// LogEntrySize is how many bytes a sliding log takes for each entry.
	LogEntrySize = 10
	logSumMask   = 1<<24 - 1
)

// MaxRecordSize is how long a record can be, in bytes: a log of the most entries there
// can be, with the quarter to spare that a ring is laid with. What is longer is none.
const MaxRecordSize = logHeaderSize + (MaxSlidingLogCount+MaxSlidingLogCount/4+2)*LogEntrySize

// maxInstant is the greatest instant a record may hold, far enough below what
// fits that an expiry computed from it stays exact in a Lua number.
const maxInstant = 1<<52 - 1

// AppendRecord appends s as a record to buf. s must not be unused.
func (s *State) AppendRecord(buf []byte) []byte {
	buf = append(buf, recordMagic...)
	buf = append(buf, recordVersion, byte(s.Limit.Algorithm))
	buf = binary.BigEndian.AppendUint32(buf, uint32(s.Limit.Count))
	buf = binary.BigEndian.AppendUint32(buf, uint32(s.Limit.Burst))
	buf = appendUint56(buf, s.Limit.period())
	buf = appendUint56(buf, int64(s.Time))
	switch s.Limit.Algorithm {
	case TokenBucket, LeakyBucket:
		buf = binary.BigEndian.AppendUint32(buf, uint32(s.Units))
		buf = appendUint56(buf, s.Rest)
	case FixedWindow:
		buf = binary.BigEndian.AppendUint32(buf, uint32(s.Units))
	case SlidingCounter:
		buf = binary.BigEndian.AppendUint32(buf, uint32(s.Units))
		buf = binary.BigEndian.AppendUint32(buf, uint32(s.Rest))
	case SlidingLog:
		buf = binary.BigEndian.AppendUint32(buf, 0)
		buf = binary.BigEndian.AppendUint32(buf, uint32(s.log.length))
		buf = appendUint24(buf, 0)
		for i := range s.log.length {
			entry := s.log.entry(i)
			buf = appendUint56(buf, int64(entry.at))
			buf = appendUint24(buf, entry.sum-s.log.base)
		}
	}
	return buf
}

// DecodeRecord reads a record into s, replacing what s was. The error says what
// is wrong with a value that is no record, or one that limitctl cannot have
// written; it is meant for [ForeignError].Holds.
func (s *State) DecodeRecord(record []byte) error {
	*s = State{}
	r := recordReader{rest: record}
	decoded, err := r.header(len(record))
	if err != nil {
		return err
	}
	switch decoded.Limit.Algorithm {
	case TokenBucket, LeakyBucket:
		decoded.Units, decoded.Rest = r.uint(4), r.uint(7)
	case FixedWindow:
		decoded.Units = r.uint(4)
	case SlidingCounter:
		decoded.Units, decoded.Rest = r.uint(4), r.uint(4)
	case SlidingLog:
		decoded.log = new(unitLog)
		if problem := decoded.log.decode(&r, decoded.Time); problem != "" {
			return damaged(problem)
		}
	}
	if problem := decoded.implausible(); problem != "" {
		return damaged(problem)
	}
	if r.short || len(r.rest) > 0 {
		return damaged(fmt.Sprintf("%d bytes are not its length", len(record)))
	}
	*s = decoded
	return nil
}

// DecodeRecordLimit returns the limit last applied out of the beginning of a
// record, 26 bytes or more. The error is as in [State.DecodeRecord].
func DecodeRecordLimit(beginning []byte) (Limit, error) {
	r := recordReader{rest: beginning}
	s, err := r.header(len(beginning))
	return s.Limit, err
}

// header reads what all records begin with. size is for the message.
func (r *recordReader) header(size int) (State, error) {
	if string(r.bytes(2)) != recordMagic || size < recordHeaderSize || size > MaxRecordSize {
		return State{}, fmt.Errorf("%d bytes that are no limit record", size)
	}
	if version := r.uint(1); version != recordVersion {
		return State{}, fmt.Errorf("a limit record of version %d, which this limitctl does not know", version)
	}
	var s State
	s.Limit.Algorithm = Algorithm(r.uint(1))
	s.Limit.Count = r.uint(4)
	s.Limit.Burst = r.uint(4)
	s.Limit.Period = time.Duration(min(r.uint(7), int64(MaxPeriod/time.Microsecond)+1)) * time.Microsecond
	s.Time = Instant(r.uint(7))
	if err := s.Limit.check(); err != nil {
		return State{}, damaged(err.Error())
	}
	return s, nil
}

// implausible says what in s breaks an invariant that all states keep, if
// anything does. Those invariants are what keeps arithmetic in range.
func (s *State) implausible() string {
	bucket := s.Limit.Algorithm.HasBurst()
	switch {
	case s.Time > maxInstant:
		return "its time is out of range"
	case s.Units > MaxCount || !bucket && s.Rest > MaxCount:
		return "its usage is out of range"
	case bucket && (s.Units > s.Limit.Burst || s.Units == s.Limit.Burst && s.Rest > 0):
		return "its level is above its burst"
	case bucket && s.Rest >= s.Limit.period():
		return "its fraction is not below 1"
	}
	return ""
}

func damaged(problem string) error {
	return fmt.Errorf("a damaged limit record (%s)", problem)
}

// decode reads the ring that follows a log's record header.
func (l *unitLog) decode(r *recordReader, newest Instant) (problem string) {
	head, length, base := r.uint(4), r.uint(4), r.uint(3)
	capacity := int64(len(r.rest) / LogEntrySize)
	ring := r.bytes(int(capacity) * LogEntrySize)
	if length > capacity || head >= max(1, capacity) {
		return "its ring does not fit its length"
	}
	sum := int64(0)
	for i := range length {
		e := recordReader{rest: ring[(head+i)%capacity*LogEntrySize:]}
		at, entrySum := Instant(e.uint(7)), e.uint(3)
		units := (entrySum - base) & logSumMask
		sum, base = sum+units, entrySum
		if units == 0 || sum > MaxSlidingLogCount || at > newest {
			return "its ring holds impossible entries"
		}
		if l.length > 0 && at < l.entry(l.length-1).at {
			return "its ring is out of order"
		}
		l.add(units, at)
	}
	return ""
}

// recordReader takes unsigned numbers off the front of a record. Past its end
// it gives zeros and remembers being short.
type recordReader struct {
	rest  []byte
	short bool
}

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

func appendUint56(buf []byte, n int64) []byte {
	return append(buf, byte(n>>48), byte(n>>40), byte(n>>32), byte(n>>24), byte(n>>16), byte(n>>8), byte(n))
}

func appendUint24(buf []byte, n int64) []byte {
	return append(buf, byte(n>>16), byte(n>>8), byte(n))
}

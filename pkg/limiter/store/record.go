package store

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/limitctl/limitctl/internal/recordformat"
)

// MaxRecordSize is how long a record can be, in bytes: a log of the most entries, and a quarter to spare in its ring.
const MaxRecordSize = recordformat.HeaderSize + 11 +
	(MaxSlidingLogCount+MaxSlidingLogCount/4+2)*recordformat.LogEntrySize

// AppendPacked appends l, which must be normalized, in the form of records and requests to scripts: kind, count,
// burst, slices or window, and period, 16 bytes. One with a calendar must be in a window; see [Limit.InWindow].
func (l *Limit) AppendPacked(buf []byte) []byte {
	kind, own := l.Kind(), uint32(l.Burst)
	switch {
	case kind.HasSlices():
		own = uint32(l.Slices)
	case kind.InCalendar():
		own = l.packedWindow()
	}
	buf = binary.BigEndian.AppendUint32(append(buf, byte(kind)), uint32(l.Count))
	return appendUint(binary.BigEndian.AppendUint32(buf, own), l.period(), 7)
}

// AppendRecord appends s as a record to buf. s must not be unused.
func (s *State) AppendRecord(buf []byte) []byte {
	definition, version := &definitions[s.Limit.Kind()], s.Limit.Kind().RecordVersion()
	if s.isOverfull() {
		version = recordformat.OverfullVersion
	}
	buf = s.Limit.AppendPacked(append(append(buf, recordformat.Magic...), version))
	buf = appendUint(buf, int64(s.Time), 7)
	if definition.ring != nil {
		return definition.ring.append(buf, s.log)
	}
	return appendUint(appendUint(buf, s.Units, 4), s.Rest, definition.restSize)
}

// DecodeRecord replaces s by the state in a record. The error is meant for [ForeignError].Holds.
func (s *State) DecodeRecord(record []byte) error { return s.DecodeRecordUnder(&Limit{}, record) }

// DecodeRecordUnder is [State.DecodeRecord] for a record that is probably under limit, which must be normalized.
func (s *State) DecodeRecordUnder(limit *Limit, record []byte) (err error) {
	r := recordReader{rest: record}
	if *s, err = r.header(limit); err == nil {
		if problem := r.state(s); problem != "" {
			err = damaged(problem)
		}
	}
	if err != nil {
		*s = State{}
	}
	return err
}

// DecodeRecordLimit returns the last applied limit from the beginning of a record, which must have at least the
// header of 26 bytes. The error is as in [State.DecodeRecord].
func DecodeRecordLimit(beginning []byte) (Limit, error) {
	r := recordReader{rest: beginning}
	s, err := r.header(&Limit{})
	return s.Limit, err
}

// state reads what follows the header into s, to the end of the record, and returns what no rule would have written.
// Without a problem, s is within the bounds of the arithmetic.
func (r *recordReader) state(s *State) (problem string) {
	const usageOutOfRange = "its usage is out of range"
	size, kind := recordformat.HeaderSize+len(r.rest), s.Limit.Kind()
	if s.Time > MaxInstant {
		return "its time is out of range"
	}
	if ring := definitions[kind].ring; ring != nil {
		oldest, newest := int64(0), int64(s.Time)
		if kind.HasSlices() {
			newest /= slicedCounter{}.width(s)
			oldest = newest - s.Limit.Slices
		}
		s.log, problem = ring.read(r, oldest, newest)
	} else {
		s.Units, s.Rest = r.uint(4), r.uint(definitions[kind].restSize)
	}
	begin := s.Limit.windowBegin()
	switch {
	case problem != "":
		return problem
	case !s.Limit.Algorithm.HasBurst() && (s.Units > MaxCount || s.Rest > MaxCount):
		return usageOutOfRange
	case kind.InCalendar() && (s.Time < begin || s.Time >= begin+Instant(s.Limit.period())):
		return "its time is not in its window"
	case s.isOverfull() && !r.overfull:
		return "its level is above its burst"
	case s.Limit.Algorithm.HasBurst() && s.Rest >= s.Limit.period():
		return "its fraction is not below 1"
	case r.overfull && (!s.isOverfull() || CheckUsage(&s.Limit, s.Used(s.Time)) != nil):
		return usageOutOfRange
	case r.short || len(r.rest) > 0:
		return fmt.Sprintf("%d bytes are not its length", size)
	}
	return ""
}

// header reads the header of a record. A limit that equals checked is known to be within its bounds.
func (r *recordReader) header(checked *Limit) (s State, err error) {
	size := len(r.rest)
	if string(r.bytes(2)) != recordformat.Magic || size < recordformat.HeaderSize || size > MaxRecordSize {
		return State{}, fmt.Errorf("%d bytes that are not a limit record", size)
	}
	version, kind := uint8(r.uint(1)), Kind(r.uint(1))
	r.overfull = version == recordformat.OverfullVersion && Algorithm(kind).known() && Algorithm(kind).HasBurst()
	known := r.overfull || kind.known() && kind.RecordVersion() == version
	if version != recordformat.Version && !known {
		return State{}, fmt.Errorf("a limit record of version %d, which this limitctl does not know", version)
	}
	l := &s.Limit
	l.Algorithm, l.Count, l.Burst = Algorithm(kind), r.uint(4), r.uint(4) // a check finds an unknown algorithm
	longest := MaxPeriod
	switch own := l.Burst; {
	case known && kind.HasSlices():
		l.Algorithm, l.Slices, l.Burst = kind.Algorithm(), own, l.Count
	case known && kind.InCalendar():
		longest = MaxWindow
		if l.Algorithm, l.Burst = kind.Algorithm(), l.Count; !l.setPackedWindow(uint32(own)) {
			return State{}, damaged("its window is out of range")
		}
	}
	l.Period = time.Duration(min(r.uint(7), int64(longest/time.Microsecond)+1)) * time.Microsecond
	s.Time = Instant(r.uint(7))
	if checked.Calendar != nil && l.Calendar != nil && l.Phase == checked.Phase && l.Period == checked.Period {
		l.Calendar = checked.Calendar
	}
	if *l != *checked {
		if err := l.check(); err != nil {
			return State{}, damaged(err.Error())
		}
	}
	if l.Kind() != kind {
		return State{}, damaged(fmt.Sprintf("%d slices of a kind that has several", l.Slices))
	}
	return s, nil
}

func damaged(problem string) error { return fmt.Errorf(damagedRecord+" (%s)", problem) }

// recordReader reads unsigned numbers from the front of a record. Past its end it returns zeros and sets short.
type recordReader struct {
	rest     []byte
	short    bool
	overfull bool // the record says so
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

// appendUint appends n in that many bytes, the last of its eight.
func appendUint(buf []byte, n int64, size int) []byte {
	var bytes [8]byte
	binary.BigEndian.PutUint64(bytes[:], uint64(n))
	return append(buf, bytes[8-size:]...)
}

package store

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/limitctl/limitctl/internal/recordformat"
)

// AppendPacked appends l, which must be normalized, in the form of records and requests to scripts: kind, count,
// burst, slices or window, and period, 16 bytes. One with a calendar must be in a window; see [Limit.InWindow].
func (l *Limit) AppendPacked(buf []byte) []byte {
	buf = append(buf, byte(l.Kind()))
	buf = binary.BigEndian.AppendUint32(buf, uint32(l.Count))
	own := uint32(l.Burst)
	switch kind := l.Kind(); {
	case kind.HasSlices():
		own = uint32(l.Slices)
	case kind.InCalendar():
		own = l.packedWindow()
	}
	buf = binary.BigEndian.AppendUint32(buf, own)
	return appendUint(buf, l.period(), 7)
}

// AppendRecord appends s as a record to buf. s must not be unused.
func (s *State) AppendRecord(buf []byte) []byte {
	buf = append(buf, recordformat.Magic...)
	version := s.Limit.Kind().RecordVersion()
	if s.isOverfull() {
		version = recordformat.OverfullVersion
	}
	buf = append(buf, version)
	buf = s.Limit.AppendPacked(buf)
	buf = appendUint(buf, int64(s.Time), 7)
	return s.rule().appendState(buf, s)
}

// DecodeRecord replaces s by the state in a record. The error says what is wrong with a value that limitctl cannot
// have written; it is meant for [ForeignError].Holds.
func (s *State) DecodeRecord(record []byte) error { return s.decodeRecord(record, &Limit{}) }

// DecodeRecordUnder is [State.DecodeRecord] for a record that is probably under limit, which must have been
// normalized. If it is, the limit is not checked again.
func (s *State) DecodeRecordUnder(limit *Limit, record []byte) error {
	return s.decodeRecord(record, limit)
}

func (s *State) decodeRecord(record []byte, checked *Limit) (err error) {
	r := recordReaders.Get().(*recordReader)
	*r = recordReader{rest: record}
	*s = State{}
	if *s, err = r.header(len(record), checked); err == nil {
		err = r.state(len(record), s)
	}
	if err != nil {
		*s = State{}
	}
	r.rest = nil // do not keep the caller's record alive
	recordReaders.Put(r)
	return err
}

// state reads what follows the header into s, to the end of the record.
func (r *recordReader) state(size int, s *State) error {
	if s.Time > MaxInstant {
		return damaged("its time is out of range")
	}
	if problem := s.rule().readState(r, s); problem != "" {
		return damaged(problem)
	}
	if r.short || len(r.rest) > 0 {
		return damaged(fmt.Sprintf("%d bytes are not its length", size))
	}
	return nil
}

// DecodeRecordLimit returns the last applied limit from the beginning of a record, which must have at least the
// header of 26 bytes. The error is as in [State.DecodeRecord].
func DecodeRecordLimit(beginning []byte) (Limit, error) {
	r := recordReader{rest: beginning}
	s, err := r.header(len(beginning), &Limit{})
	return s.Limit, err
}

// header reads the header of a record. size is for the message. A limit that equals checked is known to be within
// its bounds.
func (r *recordReader) header(size int, checked *Limit) (State, error) {
	if string(r.bytes(2)) != recordformat.Magic || size < recordformat.HeaderSize || size > MaxRecordSize {
		return State{}, fmt.Errorf("%d bytes that are not a limit record", size)
	}
	version, kind := uint8(r.uint(1)), Kind(r.uint(1))
	r.overfull = version == recordformat.OverfullVersion && kind.known() && definitions[kind].hasBurst
	known := r.overfull || kind.known() && kind.RecordVersion() == version
	if version != recordformat.Version && !known {
		return State{}, fmt.Errorf("a limit record of version %d, which this limitctl does not know", version)
	}
	var s State
	s.Limit.Algorithm = Algorithm(kind) // which a check finds unknown if that is so
	s.Limit.Count = r.uint(4)
	s.Limit.Burst = r.uint(4)
	if known && kind.HasSlices() {
		s.Limit.Algorithm, s.Limit.Slices, s.Limit.Burst = kind.Algorithm(), s.Limit.Burst, s.Limit.Count
	}
	longest := MaxPeriod
	if known && kind.InCalendar() {
		longest = MaxWindow
		packed := uint32(s.Limit.Burst)
		if s.Limit.Algorithm, s.Limit.Burst = kind.Algorithm(), s.Limit.Count; !s.Limit.setPackedWindow(packed) {
			return State{}, damaged("its window is out of range")
		}
	}
	s.Limit.Period = time.Duration(min(r.uint(7), int64(longest/time.Microsecond)+1)) * time.Microsecond
	s.Time = Instant(r.uint(7))
	if checked.isInWindowOf(&s.Limit) {
		s.Limit.Calendar = checked.Calendar
	}
	if s.Limit != *checked {
		if err := s.Limit.check(); err != nil {
			return State{}, damaged(err.Error())
		}
	}
	if s.Limit.Kind() != kind {
		return State{}, damaged(fmt.Sprintf("%d slices of a kind that has several", s.Limit.Slices))
	}
	return s, nil
}

func damaged(problem string) error {
	return fmt.Errorf(damagedRecord+" (%s)", problem)
}

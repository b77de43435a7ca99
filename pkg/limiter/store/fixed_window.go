package store

import (
	"strings"
	"time"
)

// fixedWindow: time is cut into windows of one period, aligned to the epoch,
// and each allows count units. Simple and small, but a caller can use one
// window's count just before a boundary and the next one's just after it: up to
// twice the count within one period.
//
// Units were used in the window that holds s.Time.
// The twin is lua/fixed_window.lua.
type fixedWindow struct{ wholeUnits }

var fixedWindowDefinition = definition{
	name: "fixed-window", algorithm: FixedWindow, rule: fixedWindow{}, maxCount: MaxCount, stateSize: 4,
	ahead:   wholeWindows{windows: 1},
	fadesBy: fixedWindow{}.fadesBy,
}

// windowStart returns the start of the window that holds at, if windows begin phase after whole periods.
func windowStart(at Instant, period int64, phase time.Duration) Instant {
	if phase == 0 {
		return at - at%Instant(period)
	}
	since := (at - Instant(phase.Microseconds())) % Instant(period)
	if since < 0 { // before the first window
		since += Instant(period)
	}
	return at - since
}

func (fixedWindow) end(s *State) Instant {
	period := s.Limit.period()
	return windowStart(s.Time, period, s.Limit.Phase) + Instant(period)
}

func (w fixedWindow) used(s *State, now Instant) int64 {
	if now >= w.end(s) {
		return 0
	}
	return s.Units
}

func (w fixedWindow) usedAtMost(s *State, room int64, now Instant) Instant {
	if s.Units <= room {
		return now
	}
	return max(now, w.end(s))
}

// All units of a window fade at its end.
func (fixedWindow) fadesBy(Limit, int64) time.Duration { return 0 }

func (w fixedWindow) charge(s *State, cost int64, now Instant) {
	s.Units = w.used(s, now) + cost
	s.Time = now
}

func (w fixedWindow) refund(s *State, cost int64, now Instant) {
	s.Units = max(0, w.used(s, now)-cost)
	s.Time = now
}

// wholeWindows is for rules by which a unit does not fade before the window, or the slice,
// that it was charged in has ended, and counts for so many of them.
type wholeWindows struct{ windows int64 }

func (wholeWindows) width(l *Limit) int64 { return l.period() / max(1, l.Slices) }

func (w wholeWindows) End(l *Limit, at Instant) Instant {
	in := l.InWindow(at)
	l = &in
	return windowStart(at, w.width(l), l.Phase) + Instant(w.width(l))
}

func (wholeWindows) Leaked(*Limit, int64) int64 { return 0 }

func (w wholeWindows) Gone(l *Limit, at Instant) Instant {
	in := l.InWindow(at)
	l = &in
	return windowStart(at, w.width(l), l.Phase) + Instant(w.width(l)*(w.windows+max(0, l.Slices-1)))
}

func (fixedWindow) appendState(buf []byte, s *State) []byte { return appendUint(buf, s.Units, 4) }

func (fixedWindow) readState(r *recordReader, s *State) (problem string) {
	if s.Units = r.uint(4); s.Units > MaxCount {
		return usageOutOfRange
	}
	return ""
}

// calendarWindow: the windows of fixedWindow are days, weeks, months, quarters or years of a time zone. Its limits are
// in one window (see [Limit.InWindow]): Phase is its begin, and Period its length.
//
// The record has the bounds that were last applied, and usage counts until that end, whatever bounds a later request
// has. So nothing is lost when the rules of a zone change, or when programs have different databases of zones.
//
// Units were used in that window, and s.Time is in it. The twin is lua/calendar_window.lua.
type calendarWindow struct{ fixedWindow }

// calendarWindowKind is in records and requests, and never changes. No Algorithm has its number.
const calendarWindowKind Kind = 7

var calendarWindowDefinition = definition{
	name: "calendar-window", algorithm: FixedWindow, rule: calendarWindow{}, maxCount: MaxCount, stateSize: 4,
	version: 4, inCalendar: true,
	ahead:   wholeWindows{windows: 1},
	fadesBy: fixedWindow{}.fadesBy,
}

func (w calendarWindow) readState(r *recordReader, s *State) (problem string) {
	if s.Time < s.Limit.windowBegin() || s.Time >= s.Limit.windowBegin()+Instant(s.Limit.period()) {
		return "its time is not in its window"
	}
	return w.fixedWindow.readState(r, s)
}

// MaxWindow is the length of the longest window of a calendar: a leap year in a zone that moves west within it.
const MaxWindow = MaxPeriod + 24*time.Hour

// isRecorded reports whether l was read from a record, which has the bounds of its window, but neither unit nor zone.
func (l *Limit) isRecorded() bool { return l.Calendar != nil && l.Calendar.Unit == "" }

// checkCalendar is check for windows of a calendar.
func (l *Limit) checkCalendar() error {
	switch {
	case l.Calendar.Location == nil:
		return Invalidf("a limit has a calendar that ParseLimit did not make")
	case l.Algorithm != FixedWindow:
		return Invalidf("a %s limit has no windows of a calendar; leave %s out, or choose %s", l.Algorithm, l.calendarOption(), FixedWindow)
	case l.Phase < 0 || l.windowBegin() > MaxInstant || int64(l.windowBegin())%calendarBound != 0:
		return Invalidf("phase %s is not when a window of a calendar begins; leave it out", FormatPeriod(l.Phase))
	}
	return nil
}

// calendarOption returns what the calendar adds to the text of l: its zone or, of a limit of a record, when its window
// ends, which no limit is given with.
func (l *Limit) calendarOption() string {
	if l.isRecorded() {
		return untilOption + l.ownWindowEnd().Format(time.RFC3339)
	}
	return zoneOption + l.Calendar.Zone
}

// setCalendar reads the period of l if the options name a zone.
func (l *Limit) setCalendar(period, options string) (is bool, err error) {
	for option := range strings.SplitSeq(options, ",") {
		zone, is := strings.CutPrefix(option, zoneOption)
		switch {
		case !is:
			continue
		case l.Algorithm == 0:
			return true, Invalidf("only a %[1]s limit has windows in a time zone; write %[1]s: before the count", FixedWindow)
		case l.Algorithm != FixedWindow:
			return true, Invalidf("a %s limit has no windows in a time zone; leave tz=%s out, or choose %s", l.Algorithm, zone, FixedWindow)
		}
		if l.Calendar, err = parseCalendar(period, zone); err != nil {
			return true, Invalidf("%s", err)
		}
		l.Period = usualWindow(l.Calendar.Unit)
		return true, nil
	}
	return false, nil
}

// packedWindow returns the window that l is in, as records and requests have it in place of a burst.
func (l *Limit) packedWindow() uint32 {
	begin, zero := int64(l.windowBegin()), 1<<(offsetBits-1)
	return uint32(begin/calendarBound<<offsetBits) | uint32(l.Calendar.offsetAt(begin)+zero)
}

// setPackedWindow has l be in a packed window, whose length is its period. It reports whether the window can be.
func (l *Limit) setPackedWindow(packed uint32) bool {
	const zero = 1 << (offsetBits - 1)
	begin := int64(packed>>offsetBits) * calendarBound
	if begin > MaxInstant {
		return false
	}
	l.Phase, l.Calendar = time.Duration(begin)*time.Microsecond, calendarWithOffset(int(packed%(2*zero))-zero)
	return true
}

// IsRecordedAs reports whether recorded, the limit of a record, is l. A record has the window of a calendar, and not
// its zone.
func (l Limit) IsRecordedAs(recorded Limit) bool {
	if l.Calendar == nil || recorded.Calendar == nil {
		return l == recorded
	}
	in := l.InWindow(recorded.windowBegin())
	in.Calendar = recorded.Calendar
	return in == recorded
}

// isInWindowOf reports whether l has a calendar and is in the window of a limit that was read from a record.
func (l *Limit) isInWindowOf(read *Limit) bool {
	return l.Calendar != nil && read.Calendar != nil && l.Phase == read.Phase && l.Period == read.Period
}

// windowBegin returns when the window that l is in begins.
func (l *Limit) windowBegin() Instant { return Instant(l.Phase / time.Microsecond) }

// InWindow returns l, which must be normalized, in the window of its calendar that holds an instant: Period is the
// length of that window then, and Phase its begin since the epoch. One without a calendar stays as it is. A limit of a
// record knows the length of one window only, and repeats that.
func (l Limit) InWindow(at Instant) Limit {
	if l.Calendar == nil {
		return l
	}
	if l.isRecorded() {
		l.Phase = time.Duration(windowStart(at, l.period(), l.Phase)) * time.Microsecond
		return l
	}
	w := l.Calendar.at(int64(at))
	l.Phase, l.Period = time.Duration(w.Begin)*time.Microsecond, time.Duration(w.End-w.Begin)*time.Microsecond
	return l
}

// WindowEnd returns when the window of l's calendar that holds an instant ends, by the clocks of its zone, and whether
// l has a calendar.
func (l Limit) WindowEnd(at Instant) (end time.Time, has bool) {
	if l.Calendar == nil {
		return time.Time{}, false
	}
	l = l.InWindow(at)
	return l.ownWindowEnd(), true
}

// WindowEnds is [Limit.WindowEnd] for the window that l is in. It has none without a calendar, and before
// [Limit.InWindow].
func (l Limit) WindowEnds() (end time.Time, has bool) {
	if l.Calendar == nil || l.Phase == 0 {
		return time.Time{}, false
	}
	return l.ownWindowEnd(), true
}

func (l *Limit) ownWindowEnd() time.Time {
	return (l.windowBegin() + Instant(l.period())).Time().In(l.Calendar.Location)
}

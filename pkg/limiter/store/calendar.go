package store

import (
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Calendar is what the windows of a limit are. Two calendars of the same windows are the same pointer, so that limits
// can be compared. [ParseLimit] makes them.
type Calendar struct {
	// Unit is the length of a window: 1d, 1w, 1mo, 3mo or 1y. It is empty if only the bounds of one window are known.
	Unit     string
	Zone     string // its name in the IANA database; empty without a unit
	Location *time.Location
	latest   atomic.Pointer[windowBounds] // that was asked for, mostly the current one
}

// calendarUnits are the units by the words for them.
var calendarUnits = map[string]string{
	"1d": "1d", "d": "1d", "day": "1d", "1w": "1w", "w": "1w", "week": "1w", "1mo": "1mo", "mo": "1mo", "month": "1mo",
	"3mo": "3mo", "1y": "1y", "y": "1y", "year": "1y",
}

const aDay = 24 * time.Hour

// steps returns how many days or months a window has, and the length of the longest usual one. Weeks begin on Monday,
// and quarters with January, April, July and October.
func (c *Calendar) steps() (days, months int, usual time.Duration) {
	switch c.Unit {
	case "1d":
		return 1, 0, aDay
	case "1w":
		return 7, 0, 7 * aDay
	case "1mo":
		return 0, 1, 31 * aDay
	case "3mo":
		return 0, 3, 92 * aDay
	}
	return 0, 12, 366 * aDay
}

// calendarBound, in microseconds, divides all bounds of windows: since 1972 zones are whole quarters of an hour off.
const calendarBound = int64(15 * time.Minute / time.Microsecond)

// windowBounds is from Begin to before End.
type windowBounds struct{ Begin, End int64 }

// calendars has all that were made, by unit and zone or by the offset of a record: at most five of each zone.
var calendars sync.Map

// calendarIn returns the calendar of windows in a zone of the IANA database.
func calendarIn(unit, zone string) (*Calendar, error) {
	id := [2]string{unit, zone}
	if known, has := calendars.Load(id); has {
		return known.(*Calendar), nil
	}
	location, err := time.LoadLocation(zone)
	switch zone {
	case "", "Local", "localtime", "posixrules": // they mean another zone on each host
		location = nil
	}
	if location == nil || err != nil || strings.Trim(zone, zoneCharacters) != "" ||
		strings.Contains("/"+zone+"/", "//") {
		return nil, Invalidf("unknown time zone %q; write a name of the IANA database, such as tz=Europe/Berlin or "+
			"tz=UTC", zone)
	}
	made, _ := calendars.LoadOrStore(id, &Calendar{Unit: unit, Zone: zone, Location: location})
	return made.(*Calendar), nil
}

const zoneCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_+-/"

// offsetBits are how many bits an offset has, in multiples of calendarBound: from -64 to 63.
const offsetBits = 7

// calendarAtOffset returns the calendar of a window of which only the bounds are known, and the offset at its end.
func calendarAtOffset(offset int8) *Calendar {
	known, has := calendars.Load(offset)
	if !has {
		zone := time.FixedZone("", int(offset)*int(calendarBound/1e6))
		known, _ = calendars.LoadOrStore(offset, &Calendar{Location: zone})
	}
	return known.(*Calendar)
}

// at returns the window that holds an instant. Before the epoch there is no time, so the first one begins there.
func (c *Calendar) at(at int64) windowBounds {
	if w := c.latest.Load(); w != nil && w.Begin <= at && at < w.End {
		return *w
	}
	y, m, d := time.UnixMicro(at).In(c.Location).Date()
	days, months, _ := c.steps()
	switch {
	case days == 7:
		d -= (int(time.Date(y, m, d, 0, 0, 0, 0, time.UTC).Weekday()) + 6) % 7 // since Monday
	case months > 0:
		m, d = m-(m-1)%time.Month(months), 1
	}
	// Where clocks go back over midnight, an instant is of the window of the first midnight.
	w := windowBounds{End: c.bound(y, m, d)}
	for w.End <= at {
		m, d = m+time.Month(months), d+days
		w.Begin, w.End = w.End, c.bound(y, m, d)
	}
	w.Begin = max(0, w.Begin)
	c.latest.Store(&w)
	return w
}

// bound returns the first instant at which the local date is that day or a later one. Summer time can begin with
// midnight, and a zone can skip a day. [time.Time.ZoneBounds] is wrong on the last day of some years.
func (c *Calendar) bound(y int, m time.Month, d int) int64 {
	midnight := time.Date(y, m, d, 0, 0, 0, 0, time.UTC).UnixMicro() // and there, at its offset
	before, after := c.offset(midnight-aDay.Microseconds()), c.offset(midnight+aDay.Microseconds())
	at := midnight - max(before, after)
	for before != after && at < midnight+aDay.Microseconds() && at+c.offset(at) < midnight {
		at += calendarBound
	}
	return at - ((at%calendarBound)+calendarBound)%calendarBound
}

// offset returns by how much local time is ahead of UTC.
func (c *Calendar) offset(at int64) int64 {
	_, seconds := time.UnixMicro(at).In(c.Location).Zone()
	return int64(seconds) * 1e6
}

// offsetAtEnd returns the offset of local time at the end of the window that holds an instant, in calendarBounds.
func (c *Calendar) offsetAtEnd(at int64) int64 {
	if c.Unit != "" {
		at = c.at(at).End
	}
	return c.offset(at) / calendarBound
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
		return Invalidf("a %s limit has no windows of a calendar; leave %s out, or choose %s", l.Algorithm,
			l.calendarOption(), FixedWindow)
	case l.Phase < 0 || l.windowBegin() > MaxInstant || int64(l.windowBegin())%calendarBound != 0:
		return Invalidf("phase %s is not when a window of a calendar begins; leave it out", FormatPeriod(l.Phase))
	}
	return nil
}

// calendarOption returns what the calendar adds to the text of l: its zone or, for a record, the end of its window.
func (l *Limit) calendarOption() string {
	if l.isRecorded() {
		return untilOption + l.ownWindowEnd().Format(time.RFC3339)
	}
	return zoneOption + l.Calendar.Zone
}

// packedWindow returns the window that l is in, as records and requests have it in place of a burst.
func (l *Limit) packedWindow() uint32 {
	begin, zero := int64(l.windowBegin()), int64(1<<(offsetBits-1))
	return uint32(begin/calendarBound<<offsetBits) | uint32(l.Calendar.offsetAtEnd(begin)+zero)
}

// setPackedWindow has l be in a packed window, whose length is its period. It reports whether the window can be.
func (l *Limit) setPackedWindow(packed uint32) bool {
	const zero = 1 << (offsetBits - 1)
	begin := int64(packed>>offsetBits) * calendarBound
	l.Phase, l.Calendar = time.Duration(begin)*time.Microsecond, calendarAtOffset(int8(int(packed%(2*zero))-zero))
	return begin <= MaxInstant
}

// IsRecordedAs reports whether recorded, the limit of a record, is l. A record has a window, and no zone.
func (l Limit) IsRecordedAs(recorded Limit) bool {
	if l.Calendar == nil || recorded.Calendar == nil {
		return l == recorded
	}
	in := l.InWindow(recorded.windowBegin())
	in.Calendar = recorded.Calendar
	return in == recorded
}

// windowBegin returns when the window that l is in begins.
func (l *Limit) windowBegin() Instant { return Instant(l.Phase / time.Microsecond) }

// InWindow returns l, which must be normalized, in the window of its calendar that holds an instant: Period is the
// length of that window then, and Phase its begin since the epoch. A limit of a record repeats the window that it has.
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

// WindowEnds returns when the calendar window that l is in ends, by its zone. It is in one after [Limit.InWindow].
func (l Limit) WindowEnds() (end time.Time, has bool) {
	if l.Calendar == nil || l.Phase == 0 {
		return time.Time{}, false
	}
	return l.ownWindowEnd(), true
}

func (l *Limit) ownWindowEnd() time.Time {
	return (l.windowBegin() + Instant(l.period())).Time().In(l.Calendar.Location)
}

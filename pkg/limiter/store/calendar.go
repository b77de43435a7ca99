package store

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Calendar is what the windows of a limit are: days, weeks, months, quarters or years of a time zone. Two calendars of
// the same windows are the same pointer, so that limits can be compared. [ParseLimit] makes them.
type Calendar struct {
	// Unit is the length of a window: 1d, 1w, 1mo, 3mo or 1y. It is empty if only the bounds of one window are known.
	Unit     string
	Zone     string // its name in the IANA database; empty without a unit
	Location *time.Location
	latest   atomic.Pointer[windowBounds] // that was asked for, mostly the current one
}

// The units. Weeks begin on Monday, and quarters with January, April, July and October.
const (
	day     = "1d"
	week    = "1w"
	month   = "1mo"
	quarter = "3mo"
	year    = "1y"
)

var (
	calendarUnits = []string{day, week, month, quarter, year}
	calendarWords = map[string]string{"d": day, "day": day, "w": week, "week": week, "mo": month, "month": month, "y": year,
		"year": year}
)

const aDay = 24 * time.Hour

// usualWindow returns the length of the longest usual window of a unit.
func usualWindow(unit string) time.Duration {
	switch unit {
	case day:
		return aDay
	case week:
		return 7 * aDay
	case month:
		return 31 * aDay
	case quarter:
		return 92 * aDay
	}
	return 366 * aDay
}

// parseCalendar returns the calendar of a period, such as "1mo", in a zone. The error says what would be right.
func parseCalendar(period, zone string) (*Calendar, error) {
	unit, is := calendarWords[period]
	if !is {
		unit = period
	}
	if !slices.Contains(calendarUnits, unit) {
		return nil, fmt.Errorf("%q is no window of a calendar; in a time zone there are 1d, 1w, 1mo, 3mo and 1y", period)
	}
	return calendarIn(unit, zone)
}

// needsZone returns what is wrong with a period that is no duration: it needs a zone, or is nearly one that does. It
// returns nil for any other.
func needsZone(period string) error {
	_, isWord := calendarWords[period]
	unit := strings.TrimLeft(period, "0123456789")
	switch {
	case isWord || slices.Contains(calendarUnits, period):
		return fmt.Errorf("a window of %[1]s needs a time zone; write fixed-window:COUNT/%[1]s,tz=Europe/Berlin, or tz=UTC", period)
	case slices.Contains([]string{"mo", "y", "month", "year", "months", "years"}, unit):
		return fmt.Errorf("%q is no window of a calendar; there are 1mo, 3mo and 1y, with tz=ZONE", period)
	}
	return nil
}

// calendarBound is the time that bounds of windows are whole multiples of, in microseconds. Since 1972 all offsets of
// zones are whole quarters of an hour.
const calendarBound = int64(15 * time.Minute / time.Microsecond)

// windowBounds is from Begin to before End.
type windowBounds struct {
	Begin, End int64
	Offset     int // what local time is ahead of UTC at the end, in multiples of calendarBound
}

// calendars has all that were made. There are no more than zones in the host's database, with five units each.
var calendars sync.Map // calendarID → *Calendar

type calendarID struct {
	unit string
	zone string
}

// calendarIn returns the calendar of windows in a zone of the IANA database.
func calendarIn(unit, zone string) (*Calendar, error) {
	if known, has := calendars.Load(calendarID{unit, zone}); has {
		return known.(*Calendar), nil
	}
	location, err := loadZone(zone)
	if err != nil {
		return nil, err
	}
	made, _ := calendars.LoadOrStore(calendarID{unit, zone}, &Calendar{Unit: unit, Zone: zone, Location: location})
	return made.(*Calendar), nil
}

// ofTheHost are names that mean another zone on each host. A limit is the same on all of them.
var ofTheHost = []string{"Local", "localtime", "posixrules"}

// loadZone returns a zone by its name.
func loadZone(name string) (*time.Location, error) {
	const advice = "write a name of the IANA database, such as tz=Europe/Berlin or tz=UTC"
	if name == "" {
		return nil, errors.New("tz= names no time zone; " + advice)
	}
	isOther := func(c rune) bool {
		return !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("_+-/", c))
	}
	if !slices.Contains(ofTheHost, name) && strings.IndexFunc(name, isOther) < 0 && !strings.Contains("/"+name+"/", "//") {
		if location, err := time.LoadLocation(name); err == nil {
			return location, nil
		}
	}
	return nil, fmt.Errorf("unknown time zone %q; %s", name, advice)
}

// at returns the window that holds an instant. Before the epoch there is no time, so the first one begins there.
func (c *Calendar) at(at int64) windowBounds {
	if w := c.latest.Load(); w != nil && w.Begin <= at && at < w.End {
		return *w
	}
	y, m, d := time.UnixMicro(at).In(c.Location).Date()
	switch c.Unit {
	case day:
	case week:
		weekday := time.Date(y, m, d, 0, 0, 0, 0, time.UTC).Weekday()
		d -= (int(weekday) + 6) % 7 // since Monday
	case month:
		d = 1
	case quarter:
		m, d = m-(m-1)%3, 1
	case year:
		m, d = 1, 1
	}
	// Where clocks are set back over midnight the date at an instant can be the one before. It is of the window of
	// the first midnight.
	w := windowBounds{End: c.bound(y, m, d)}
	for w.End <= at {
		y, m, d = c.next(y, m, d)
		w.Begin, w.End = w.End, c.bound(y, m, d)
	}
	w.Begin = max(0, w.Begin)
	w.Offset = int(c.offset(w.End) / calendarBound)
	c.latest.Store(&w)
	return w
}

// next returns the first day of the window after the one that begins on a day.
func (c *Calendar) next(y int, m time.Month, d int) (int, time.Month, int) {
	switch c.Unit {
	case day:
		d++
	case week:
		d += 7
	case month:
		m++
	case quarter:
		m += 3
	case year:
		y++
	default: // which Parse does not make; a window has to move on
		y++
	}
	return y, m, d
}

// bound returns the first instant at which the local date is that day or a later one, a multiple of calendarBound. Midnight need not
// be on that day: summer time can begin with it, and a zone can skip a day. It does not ask for the next change of the
// zone: on the last day of some leap years [time.Time.ZoneBounds] names one that is past.
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

// offsetBits are how many bits an offset has, in multiples of calendarBound: from -64 to 63.
const offsetBits = 7

// calendarWithOffset returns the calendar of a window of which only the bounds are known, and the offset at its end. It
// is nil for an offset that no zone has.
func calendarWithOffset(offset int) *Calendar {
	const zero = 1 << (offsetBits - 1)
	if offset < -zero || offset >= zero {
		return nil
	}
	return &knownOffsets()[offset+zero]
}

var knownOffsets = sync.OnceValue(func() *[1 << offsetBits]Calendar {
	var all [1 << offsetBits]Calendar
	for i := range all {
		all[i].Location = time.FixedZone("", (i-len(all)/2)*int(calendarBound/1e6))
	}
	return &all
})

// offsetAt returns what local time is ahead of UTC at the end of the window that holds an instant, in multiples of calendarBound.
func (c *Calendar) offsetAt(at int64) int {
	if c.Unit == "" {
		return int(c.offset(at) / calendarBound)
	}
	return c.at(at).Offset
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

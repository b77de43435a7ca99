// Package calendar computes windows of a calendar: days, weeks, months, quarters and years of a time zone. Instants are
// whole microseconds since the epoch, as stores count them.
package calendar

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Calendar is the windows of one unit in one zone. Two of the same windows are the same pointer.
type Calendar struct {
	// Unit is the length of a window, as it is written. It is empty if only the bounds of one window are known.
	Unit     Unit
	Zone     string // its name in the IANA database; empty without a unit
	Location *time.Location
	latest   atomic.Pointer[Window] // that was asked for, mostly the current one
}

// Unit is the length of a window, as it is written. Weeks begin on Monday, and quarters with January, April, July and
// October.
type Unit string

const (
	day     Unit = "1d"
	week    Unit = "1w"
	month   Unit = "1mo"
	quarter Unit = "3mo"
	year    Unit = "1y"
)

var (
	units = []Unit{day, week, month, quarter, year}
	words = map[string]Unit{"d": day, "day": day, "w": week, "week": week, "mo": month, "month": month, "y": year, "year": year}
)

const aDay = 24 * time.Hour

// Usual returns the length of the longest usual window.
func (u Unit) Usual() time.Duration {
	switch u {
	case day:
		return aDay
	case week:
		return 7 * aDay
	case month:
		return 31 * aDay
	case quarter:
		return 92 * aDay
	case year:
	}
	return 366 * aDay
}

// Parse returns the calendar of a period, such as "1mo", in a zone. The error is one line that says what would be right.
func Parse(period, zone string) (*Calendar, error) {
	unit, is := words[period]
	if !is {
		unit = Unit(period)
	}
	if !slices.Contains(units, unit) {
		return nil, fmt.Errorf("%q is no window of a calendar; in a time zone there are 1d, 1w, 1mo, 3mo and 1y", period)
	}
	return of(unit, zone)
}

// NeedsZone returns what is wrong with a period that is no duration: it needs a zone, or is nearly one that does. It returns nil
// for any other.
func NeedsZone(period string) error {
	_, isWord := words[period]
	unit := strings.TrimLeft(period, "0123456789")
	switch {
	case isWord || slices.Contains(units, Unit(period)):
		return fmt.Errorf("a window of %[1]s needs a time zone; write fixed-window:COUNT/%[1]s,tz=Europe/Berlin, or tz=UTC", period)
	case slices.Contains([]string{"mo", "y", "month", "year", "months", "years"}, unit):
		return fmt.Errorf("%q is no window of a calendar; there are 1mo, 3mo and 1y, with tz=ZONE", period)
	}
	return nil
}

// Bound is the time that bounds of windows are whole multiples of, in microseconds. Since 1972 all offsets of zones are
// whole quarters of an hour.
const Bound = int64(15 * time.Minute / time.Microsecond)

// Window is from Begin to before End.
type Window struct {
	Begin, End int64
	Offset     int // what local time is ahead of UTC at the end, in Bounds
}

// calendars has all that were made. There are no more than zones in the host's database, with five units each.
var calendars sync.Map // id → *Calendar

type id struct {
	unit Unit
	zone string
}

// of returns the calendar of windows in a zone of the IANA database.
func of(unit Unit, zone string) (*Calendar, error) {
	if known, has := calendars.Load(id{unit, zone}); has {
		return known.(*Calendar), nil
	}
	location, err := loadZone(zone)
	if err != nil {
		return nil, err
	}
	made, _ := calendars.LoadOrStore(id{unit, zone}, &Calendar{Unit: unit, Zone: zone, Location: location})
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

// At returns the window that holds an instant. Before the epoch there is no time, so the first one begins there.
func (c *Calendar) At(at int64) Window {
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
	w := Window{End: c.bound(y, m, d)}
	for w.End <= at {
		y, m, d = c.next(y, m, d)
		w.Begin, w.End = w.End, c.bound(y, m, d)
	}
	w.Begin = max(0, w.Begin)
	w.Offset = int(c.offset(w.End) / Bound)
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

// bound returns the first instant at which the local date is that day or a later one, in whole Bounds. Midnight need not
// be on that day: summer time can begin with it, and a zone can skip a day. It does not ask for the next change of the
// zone: on the last day of some leap years [time.Time.ZoneBounds] names one that is past.
func (c *Calendar) bound(y int, m time.Month, d int) int64 {
	midnight := time.Date(y, m, d, 0, 0, 0, 0, time.UTC).UnixMicro() // and there, at its offset
	before, after := c.offset(midnight-aDay.Microseconds()), c.offset(midnight+aDay.Microseconds())
	at := midnight - max(before, after)
	for before != after && at < midnight+aDay.Microseconds() && at+c.offset(at) < midnight {
		at += Bound
	}
	return at - ((at%Bound)+Bound)%Bound
}

// offset returns by how much local time is ahead of UTC.
func (c *Calendar) offset(at int64) int64 {
	_, seconds := time.UnixMicro(at).In(c.Location).Zone()
	return int64(seconds) * 1e6
}

// OffsetBits are how many bits an offset has, in Bounds: from -64 to 63.
const OffsetBits = 7

// Known returns the calendar of a window of which only the bounds are known, and the offset at its end. It is nil for an offset
// that no zone has.
func Known(offset int) *Calendar {
	const zero = 1 << (OffsetBits - 1)
	if offset < -zero || offset >= zero {
		return nil
	}
	return &known()[offset+zero]
}

var known = sync.OnceValue(func() *[1 << OffsetBits]Calendar {
	var all [1 << OffsetBits]Calendar
	for i := range all {
		all[i].Location = time.FixedZone("", (i-len(all)/2)*int(Bound/1e6))
	}
	return &all
})

// OffsetAt returns what local time is ahead of UTC at the end of the window that holds an instant, in Bounds.
func (c *Calendar) OffsetAt(at int64) int {
	if c.Unit == "" {
		return int(c.offset(at) / Bound)
	}
	return c.At(at).Offset
}

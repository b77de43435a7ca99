package trace

import (
	"bytes"
	"strconv"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// maxInstant bounds the instants of a log, which begin in 1970: a state holds instants up to a century later, and
// they must be exact in a script's numbers.
var maxInstant = store.InstantOf(time.Date(2100, time.January, 1, 0, 0, 0, 0, time.UTC))

// parseTime reads a time of RFC 3339, or as programs vary it; a time as in access logs; or a number since 1970, perhaps with a fraction,
// whose size decides whether it is in seconds, milliseconds, microseconds or nanoseconds. Parts of a microsecond are cut off. Without a
// zone, at is what clocks of UTC would show.
func parseTime(text []byte) (at store.Instant, zoned, ok bool) {
	if len(text) > 2 && text[0] == '[' && text[len(text)-1] == ']' { // Apache's %t
		text = text[1 : len(text)-1]
	}
	switch {
	case len(text) >= len(usualTime) && text[4] == '-':
		return parseDate(text)
	case len(text) == apacheTimeLength && text[2] == '/':
		at, ok = parseApacheTime(text)
		return at, true, ok
	}
	at, ok = parseNumber(text)
	return at, true, ok
}

func parseNumber(text []byte) (at store.Instant, ok bool) {
	if bytes.ContainsAny(text, "eE") {
		number, err := strconv.ParseFloat(string(text), 64)
		if err != nil || number < 0 || number > 1e19 {
			return 0, false
		}
		text = strconv.AppendFloat(nil, number, 'f', -1, 64)
	}
	whole, fraction, found := bytes.Cut(text, []byte{'.'})
	const maxDigits = 19 // in an int64, so that nothing overflows
	if len(whole) == 0 || len(whole) > maxDigits || found && len(fraction) == 0 {
		return 0, false
	}
	number, ok := digits(whole)
	if !ok || len(bytes.Trim(fraction, "0123456789")) > 0 {
		return 0, false
	}
	switch {
	case number < 1e11:
		at = store.Instant(number*1e6 + microseconds(fraction, 6))
	case number < 1e14:
		at = store.Instant(number*1e3 + microseconds(fraction, 3))
	case number < 1e17:
		at = store.Instant(number)
	default:
		at = store.Instant(number / 1e3)
	}
	return at, inBounds(at)
}

func inBounds(at store.Instant) bool { return at >= 0 && at < maxInstant }

// usualTime is how a time of RFC 3339 begins.
const usualTime = "2006-01-02T15:04:05"

// parseDate reads a time of RFC 3339, several times as fast as package time. A space may stand for the T and before the zone, a comma
// for the point; the zone may lack its colon, its minutes, or be missing.
func parseDate(text []byte) (at store.Instant, zoned, ok bool) {
	if text[7] != '-' || text[10]|0x20 != 't' && text[10] != ' ' || text[13] != ':' || text[16] != ':' {
		return 0, false, false
	}
	century, year, month, day := two(text[0:2]), two(text[2:4]), two(text[5:7]), two(text[8:10])
	hour, minute, second := two(text[11:13]), two(text[14:16]), two(text[17:19])
	if (century | year | month | day | hour | minute | second) < 0 { // one of them is no number
		return 0, false, false
	}
	if year += 100 * century; month < 1 || month > 12 || day < 1 || day > 28 && day > daysIn(year, month) ||
		hour > 23 || minute > 59 || second > leapSecond {
		return 0, false, false
	}
	rest, micros := text[len(usualTime):], int64(0)
	if len(rest) > 0 && (rest[0] == '.' || rest[0] == ',') {
		end := 1
		for end < len(rest) && rest[end]-'0' <= 9 {
			end++
		}
		if end == 1 {
			return 0, false, false
		}
		micros, rest = microseconds(rest[1:end], 6), rest[end:]
	}
	zone, zoned, ok := parseZone(rest)
	at = store.Instant((((daysSince1970(year, month, day)*24+hour)*60+minute-zone)*60+second)*1e6 + micros)
	if zoned {
		ok = ok && inBounds(at) && (second < leapSecond || endsDay(at))
	}
	return at, zoned, ok
}

// parseZone reads how many minutes a zone is ahead, as in Z, +07:00, +0700 or +07.
func parseZone(text []byte) (minutes int64, zoned, ok bool) {
	if len(text) == 0 {
		return 0, false, true
	}
	if text[0] == ' ' {
		text = text[1:]
	}
	switch {
	case len(text) == 1 && text[0]|0x20 == 'z':
		return 0, true, true
	case len(text) < len("+07") || text[0] != '+' && text[0] != '-':
		return 0, false, false
	}
	hours, rest := two(text[1:3]), text[3:]
	if len(rest) == len(":00") && rest[0] == ':' {
		rest = rest[1:]
	}
	switch len(rest) {
	case len("00"):
		minutes = two(rest)
	case 0:
	default:
		return 0, false, false
	}
	if (hours|minutes) < 0 || hours > 23 || minutes > 59 {
		return 0, false, false
	}
	if minutes += 60 * hours; text[0] == '-' {
		minutes = -minutes
	}
	return minutes, true, true
}

// leapSecond is the second that a day of UTC can have at its end. It is read as the first of the next day, as most clocks show it.
const leapSecond = 60

// endsDay reports whether a leap second can be read as at.
func endsDay(at store.Instant) bool { return at/1e6%86400 == 0 }

// two reads two digits; it is negative if they are none.
func two(text []byte) int64 {
	tens, ones := text[0]-'0', text[1]-'0'
	if tens > 9 || ones > 9 {
		return -1
	}
	return 10*int64(tens) + int64(ones)
}

// daysIn returns the days of a month.
func daysIn(year, month int64) int64 {
	return daysSince1970(year, month+1, 1) - daysSince1970(year, month, 1)
}

// daysSince1970 returns the number of a day of the Gregorian calendar. The month after December is the next January.
func daysSince1970(year, month, day int64) int64 {
	if month <= 2 { // a year that begins in March has its leap day at its end
		year, month = year-1, month+12
	}
	const daysBefore1970 = 719_468 // of 1 March of the year 0
	return 365*year + year/4 - year/100 + year/400 + (153*(month-3)+2)/5 + day - 1 - daysBefore1970
}

// inZone returns when the clocks of a zone show what those of UTC show at shown. Of a time that they show twice, because they are set
// back, it is the first. A time that they never show, because they are set forward, is not ok.
func inZone(shown store.Instant, zone *time.Location) (at store.Instant, twice, ok bool) {
	s := shown.Time().UTC()
	t := time.Date(s.Year(), s.Month(), s.Day(), s.Hour(), s.Minute(), s.Second(), s.Nanosecond(), zone)
	if _, offset := t.Zone(); t.UnixMicro()+int64(offset)*1e6 != int64(shown) {
		return 0, false, false
	}
	t, twice = firstOf(t)
	return store.Instant(t.UnixMicro()), twice, true
}

// firstOf returns the first instant at which the clocks of t's zone show what they show at t, and whether there are two.
func firstOf(t time.Time) (first time.Time, twice bool) {
	start, end := t.ZoneBounds()
	_, offset := t.Zone()
	if !start.IsZero() {
		_, before := start.Add(-1).Zone()
		if back := time.Duration(before-offset) * time.Second; t.Sub(start) < back {
			return t.Add(-back), true
		}
	}
	if !end.IsZero() {
		_, after := end.Zone()
		return t, end.Sub(t) <= time.Duration(offset-after)*time.Second
	}
	return t, false
}

// digits reads a whole number of at most 19 digits.
func digits(text []byte) (n int64, ok bool) {
	for _, c := range text {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = 10*n + int64(c-'0')
	}
	return n, n >= 0
}

// microseconds reads the first places of a fraction.
func microseconds(fraction []byte, places int) int64 {
	n := int64(0)
	for i := range places {
		n *= 10
		if i < len(fraction) {
			n += int64(fraction[i] - '0')
		}
	}
	return n
}

// apacheTime is the format of an access log's times, and apacheTimeLength its length.
const (
	apacheTime       = "02/Jan/2006:15:04:05 -0700"
	apacheTimeLength = len(apacheTime)
)

// apacheClock reads an access log's times. It reuses the time of the line before, which is often the same.
type apacheClock struct {
	text [apacheTimeLength]byte
	at   store.Instant
}

func (c *apacheClock) parse(text []byte) (at store.Instant, ok bool) {
	if bytes.Equal(text, c.text[:]) {
		return c.at, true
	}
	if at, ok = parseApacheTime(text); ok {
		copy(c.text[:], text)
		c.at = at
	}
	return at, ok
}

func parseApacheTime(text []byte) (at store.Instant, ok bool) {
	if text[2] != '/' || text[6] != '/' || text[11] != ':' || text[14] != ':' || text[17] != ':' || text[20] != ' ' {
		return 0, false
	}
	month := monthOf(text[3:6])
	century, year, day := two(text[7:9]), two(text[9:11]), two(text[0:2])
	hour, minute, second := two(text[12:14]), two(text[15:17]), two(text[18:20])
	zone, zoned, ok := parseZone(text[21:])
	if (century | year | day | hour | minute | second) < 0 {
		return 0, false
	}
	year += 100 * century
	if !zoned || !ok || month == 0 || day < 1 || day > daysIn(year, month) || hour > 23 || minute > 59 || second > leapSecond {
		return 0, false
	}
	at = store.Instant((((daysSince1970(year, month, day)*24+hour)*60+minute-zone)*60 + second) * 1e6)
	return at, inBounds(at) && (second < leapSecond || endsDay(at))
}

const months = "JanFebMarAprMayJunJulAugSepOctNovDec"

// monthOf returns the month with that abbreviation, or 0.
func monthOf(text []byte) int64 {
	for i := 0; i < len(months); i += 3 {
		if string(text) == months[i:i+3] {
			return int64(i/3 + 1)
		}
	}
	return 0
}

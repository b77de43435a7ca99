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

// parseInstant reads a time of RFC 3339, or a number since 1970, perhaps with a fraction. The size of a number
// decides whether it is in seconds, milliseconds, microseconds or nanoseconds. Parts of a microsecond are cut off.
func parseInstant(text []byte) (at store.Instant, ok bool) {
	if at, ok := parseUsual(text); ok {
		return at, true
	}
	if len(text) > 4 && text[4] == '-' && bytes.IndexByte(text, ':') > 0 {
		t, err := time.Parse(time.RFC3339Nano, string(text))
		if err != nil || t.Unix() < 0 {
			return 0, false
		}
		at = store.InstantOf(t)
		return at, at < maxInstant
	}
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
	return at, at < maxInstant
}

// usualTime is how a time of RFC 3339 begins.
const usualTime = "2006-01-02T15:04:05"

// parseUsual reads a time of RFC 3339 as nearly all programs write it, several times as fast as package time. What it does not read
// may still be a time.
func parseUsual(text []byte) (at store.Instant, ok bool) {
	if len(text) <= len(usualTime) || text[4] != '-' || text[7] != '-' || text[10] != 'T' || text[13] != ':' || text[16] != ':' {
		return 0, false
	}
	century, year, month, day := two(text[0:2]), two(text[2:4]), two(text[5:7]), two(text[8:10])
	hour, minute, second := two(text[11:13]), two(text[14:16]), two(text[17:19])
	if (century | year | month | day | hour | minute | second) < 0 { // one of them is no number
		return 0, false
	}
	if year += 100 * century; year < 1970 || month < 1 || month > 12 || day < 1 || day > 28 && day > daysIn(year, month) ||
		hour > 23 || minute > 59 || second > 59 {
		return 0, false
	}
	rest, micros := text[len(usualTime):], int64(0)
	if rest[0] == '.' {
		end := 1
		for end < len(rest) && rest[end]-'0' <= 9 {
			end++
		}
		if end == 1 || end > len(".999999999") {
			return 0, false
		}
		micros, rest = microseconds(rest[1:end], 6), rest[end:]
	}
	zone := int64(0) // in minutes
	switch {
	case len(rest) == 1 && rest[0] == 'Z':
	case len(rest) == len("+07:00") && (rest[0] == '+' || rest[0] == '-') && rest[3] == ':':
		hours, minutes := two(rest[1:3]), two(rest[4:6])
		if (hours|minutes) < 0 || hours > 23 || minutes > 59 {
			return 0, false
		}
		if zone = hours*60 + minutes; rest[0] == '-' {
			zone = -zone
		}
	default:
		return 0, false
	}
	at = store.Instant((((daysSince1970(year, month, day)*24+hour)*60+minute-zone)*60+second)*1e6 + micros)
	return at, at >= 0 && at < maxInstant
}

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

// localTimes are the forms of times without a zone. A fraction may follow each.
var localTimes = [...]string{"2006-01-02T15:04:05", "2006-01-02 15:04:05"}

// parseLocal reads a time without a zone by the clocks of one. Of a time that these show twice, because they are set
// back, it returns the first. A time that they never show cannot be read.
func parseLocal(text []byte, zone *time.Location) (at store.Instant, twice, ok bool) {
	if len(text) < len(localTimes[0]) || text[4] != '-' {
		return 0, false, false
	}
	for _, form := range localTimes {
		t, err := time.ParseInLocation(form, string(text), zone)
		if err != nil {
			continue
		}
		if hour, _ := digits(text[11:13]); int64(t.Hour()) != hour || t.Unix() < 0 {
			return 0, false, false
		}
		t, twice = firstOf(t)
		at = store.InstantOf(t)
		return at, twice, at < maxInstant
	}
	return 0, false, false
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

// apacheClock reads an access log's times. It reuses the date of the line before, which is mostly the same.
type apacheClock struct {
	text [apacheTimeLength]byte
	at   store.Instant
}

func (c *apacheClock) parse(text []byte) (at store.Instant, ok bool) {
	if bytes.Equal(text, c.text[:]) {
		return c.at, true
	}
	if text[2] != '/' || text[6] != '/' || text[11] != ':' || text[14] != ':' || text[17] != ':' || text[20] != ' ' {
		return 0, false
	}
	month := monthOf(text[3:6])
	day, dayOK := digits(text[0:2])
	year, yearOK := digits(text[7:11])
	hour, hourOK := digits(text[12:14])
	minute, minuteOK := digits(text[15:17])
	second, secondOK := digits(text[18:20])
	zoneHours, zoneHoursOK := digits(text[22:24])
	zoneMinutes, zoneMinutesOK := digits(text[24:26])
	if month == 0 || !dayOK || !yearOK || !hourOK || !minuteOK || !secondOK || !zoneHoursOK || !zoneMinutesOK ||
		hour > 23 || minute > 59 || second > 59 || zoneHours > 23 || zoneMinutes > 59 || text[21] != '+' && text[21] != '-' {
		return 0, false
	}
	date := time.Date(int(year), month, int(day), 0, 0, 0, 0, time.UTC)
	if date.Day() != int(day) { // the 31st of June, which would be the 1st of July
		return 0, false
	}
	zone := zoneHours*3600 + zoneMinutes*60
	if text[21] == '-' {
		zone = -zone
	}
	seconds := date.Unix() + hour*3600 + minute*60 + second - zone
	at = store.Instant(seconds * 1e6)
	if seconds < 0 || at >= maxInstant {
		return 0, false
	}
	copy(c.text[:], text)
	c.at = at
	return at, true
}

const months = "JanFebMarAprMayJunJulAugSepOctNovDec"

// monthOf returns the month with that abbreviation, or 0.
func monthOf(text []byte) time.Month {
	for i := 0; i < len(months); i += 3 {
		if string(text) == months[i:i+3] {
			return time.Month(i/3 + 1)
		}
	}
	return 0
}

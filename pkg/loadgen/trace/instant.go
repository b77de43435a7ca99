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

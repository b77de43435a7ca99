package trace

import (
	"bytes"
	"strconv"
	"strings"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// maxInstant bounds the instants of a log, which begin in 1970: a state holds instants up to a century later, and
// they must be exact in a script's numbers.
var maxInstant = store.InstantOf(time.Date(2100, time.January, 1, 0, 0, 0, 0, time.UTC))

func inBounds(at store.Instant) bool { return at >= 0 && at < maxInstant }

// parseTime reads a time of RFC 3339, or as programs vary it; a time as in access logs; or a number since 1970,
// perhaps with a fraction, whose size decides whether it is in seconds, milliseconds, microseconds or nanoseconds.
// Parts of a microsecond are cut off. A time without a zone is taken as one of UTC.
func parseTime(text []byte) (at store.Instant, zoned, ok bool) {
	if len(text) > 2 && text[0] == '[' && text[len(text)-1] == ']' { // Apache's %t
		text = text[1 : len(text)-1]
	}
	switch {
	case len(text) >= len(time.DateTime) && text[4] == '-':
		return parseDate(text)
	case len(text) == apacheTimeLength && text[2] == '/':
		at, ok = parseApacheTime(text)
		return at, true, ok
	}
	at, ok = parseNumber(text)
	return at, true, ok
}

func parseNumber(text []byte) (at store.Instant, ok bool) {
	whole, fraction, found := bytes.Cut(text, []byte{'.'})
	if !isDigits(whole) || found && !isDigits(fraction) {
		return 0, false
	}
	number, err := strconv.ParseInt(string(whole), 10, 64)
	if err != nil {
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

func isDigits(text []byte) bool {
	for _, c := range text {
		if c < '0' || c > '9' {
			return false
		}
	}
	return len(text) > 0
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

// parseDate reads a time of RFC 3339. A space may stand for the T and before the zone, a comma for the point; the
// zone may lack its colon, its minutes, or be missing. A leap second is read as the first of the next day, as most
// clocks show it.
func parseDate(text []byte) (at store.Instant, zoned, ok bool) {
	var t time.Time
	if t.UnmarshalText(text) == nil { // as nearly all are
		at = store.Instant(t.UnixMicro())
		return at, true, inBounds(at)
	}
	date := bytes.ToUpper(text)
	if date[10] == ' ' {
		date[10] = 'T'
	}
	leap := time.Duration(0)
	if second := date[len("2006-01-02T15:04:"):]; string(second[:2]) == "60" {
		copy(second, "59")
		leap = time.Second
	}
	for _, zone := range []string{"Z07:00", "Z0700", "Z07", " Z07:00", " Z0700", " Z07", ""} {
		if t, err := time.Parse("2006-01-02T15:04:05"+zone, string(date)); err == nil {
			at = store.Instant(t.Add(leap).UnixMicro())
			return at, zone != "", inBounds(at) && (leap == 0 || at/1e6%86400 == 0)
		}
	}
	return 0, false, false
}

// apacheTime is the format of an access log's times, and apacheTimeLength its length.
const (
	apacheTime       = "02/Jan/2006:15:04:05 -0700"
	apacheTimeLength = len(apacheTime)
)

// parseApacheTime reads a time as one of RFC 3339, which package time reads fastest.
func parseApacheTime(text []byte) (at store.Instant, ok bool) {
	month := strings.Index("JanFebMarAprMayJunJulAugSepOctNovDec", string(text[3:6]))
	if month%3 != 0 || text[2] != '/' || text[6] != '/' || text[11] != ':' || text[20] != ' ' {
		return 0, false
	}
	month = month/3 + 1
	date := append(make([]byte, 0, len(time.RFC3339)), text[7:11]...)
	date = append(date, '-', byte('0'+month/10), byte('0'+month%10), '-')
	date = append(append(append(date, text[:2]...), 'T'), text[12:20]...)
	date = append(append(append(date, text[21:24]...), ':'), text[24:]...)
	at, zoned, ok := parseDate(date)
	return at, zoned && ok
}

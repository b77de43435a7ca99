package trace

import (
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // whatever the machine has
)

// zoneOf returns a zone by its name.
func zoneOf(t *testing.T, name string) *time.Location {
	t.Helper()
	zone, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return zone
}

// Times without a zone are read by the clocks of the given one, also when these are set back or forward.
func TestTimesWithoutAZone(t *testing.T) {
	berlin, howe := zoneOf(t, "Europe/Berlin"), zoneOf(t, "Australia/Lord_Howe") // its clocks move half an hour
	const skipped, none = "does not exist in Europe/Berlin, where clocks are set forward", "is neither like"
	for _, test := range []struct {
		zone *time.Location
		text string
		want string // or why it cannot be read
	}{
		{berlin, "2026-07-01T12:00:00", "2026-07-01T10:00:00Z"},
		{berlin, "2026-01-01 12:00:00.5", "2026-01-01T11:00:00.5Z"},
		{berlin, "2026-01-01T12:00:00+05:00", "2026-01-01T07:00:00Z"}, // it has one
		{time.FixedZone("+02:00", 7200), "2026-01-01 12:00:00", "2026-01-01T10:00:00Z"},
		// Set back at 3:00, which is 2:00 again.
		{berlin, "2026-10-25 01:59:59", "2026-10-24T23:59:59Z"},
		{berlin, "2026-10-25 03:00:00", "2026-10-25T02:00:00Z"},
		// Set forward at 2:00, which is 3:00.
		{berlin, "2026-03-29 01:59:59", "2026-03-29T00:59:59Z"},
		{berlin, "2026-03-29 02:00:00", skipped},
		{berlin, "2026-03-29 03:00:00", "2026-03-29T01:00:00Z"},
		{howe, "2026-04-05 01:29:59", "2026-04-04T14:29:59Z"},
		{howe, "2026-04-05 02:00:00", "2026-04-04T15:30:00Z"},
		{berlin, "2017-01-01 00:59:60.5", "2017-01-01T00:00:00.5Z"}, {berlin, "2017-01-01 00:58:60", none},
		{berlin, "2026-13-01 12:00:00", none}, {berlin, "2026-01-01 12:00", none},
		{berlin, "2100-01-02 12:00:00", none}, {berlin, "2026-01-01x12:00:00", none}, {berlin, "", none},
		{nil, "2026-01-01 12:00:00", "has no time zone; say which"},
	} {
		at, got := (&plan{zone: test.zone}).instant([]byte(test.text))
		if got == "" {
			got = at.Time().UTC().Format(time.RFC3339Nano)
		}
		if !strings.Contains(got, test.want) {
			t.Errorf("%s in %s: %s, want %s", test.text, test.zone, got, test.want)
		}
	}
}

package cli

import (
	"testing"
	"time"
)

// A time of another day has its date, before and after.
func TestTheClockOfAnotherDayHasItsDate(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for away, want := range map[time.Duration]string{
		0: "12:00:00 UTC", 12*time.Hour - time.Second: "23:59:59 UTC", 12 * time.Hour: "2026-03-02 00:00:00 UTC",
		-12 * time.Hour: "00:00:00 UTC", -12*time.Hour - time.Second: "2026-02-28 23:59:59 UTC",
	} {
		if got := Clock(now.Add(away).In(time.FixedZone("", 3600)), now); got != want {
			t.Errorf("%s away: %s, want %s", away, got, want)
		}
	}
}

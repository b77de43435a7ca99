package ui

import (
	"testing"
	"time"
)

// An end is told with its date where its time of day may be taken for another day's.
func TestUntilHasADateFromTwentyHoursOn(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for left, want := range map[time.Duration]string{
		time.Minute: "12:01", 20*time.Hour - time.Second: "07:59", 20 * time.Hour: "Mar 2 08:00",
		24 * time.Hour: "Mar 2 12:00",
	} {
		if got := Until(now.Add(left).In(time.FixedZone("", 3600)), now); got != want {
			t.Errorf("in %s: %s, want %s", left, got, want)
		}
	}
}

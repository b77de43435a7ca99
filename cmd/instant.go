package cmd

import (
	"strings"
	"time"
)

// parseInstant reads an instant, or a time of day: the next one after now if future, else the
// last one. Without a zone it is by the clock of this machine.
func parseInstant(text string, now time.Time, future bool) (instant time.Time, is bool) {
	text = strings.TrimSpace(text)
	for _, layout := range []string{"15:04", "15:04:05", "15:04Z07:00", "15:04:05Z07:00"} {
		t, err := time.ParseInLocation(layout, text, now.Location())
		if err != nil {
			continue
		}
		if strings.HasSuffix(layout, "Z07:00") {
			now = now.In(t.Location())
		}
		at := func(days int) time.Time {
			return time.Date(now.Year(), now.Month(), now.Day()+days, t.Hour(), t.Minute(), t.Second(), 0, now.Location())
		}
		switch today := at(0); {
		case future && !today.After(now):
			return at(1), true
		case !future && today.After(now):
			return at(-1), true
		default:
			return today, true
		}
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04Z07:00", "2006-01-02T15:04:05", "2006-01-02 15:04:05",
		"2006-01-02T15:04", "2006-01-02 15:04"} {
		if t, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			return t, true
		}
	}
	return time.Time{}, false
}

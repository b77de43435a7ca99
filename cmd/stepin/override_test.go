package stepin

import (
	"bytes"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // whatever the machine has

	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// An override lasts from a second to thirty days, both included.
func TestTheBoundsOfAnEnd(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, test := range []struct {
		flag, value string
		want        time.Duration
		mistake     string // a part of its text
	}{
		{"for", "999ms", 0, "from 1s to 30d"}, {"for", "1s", time.Second, ""},
		{"for", "30d", store.MaxOverrideTime, ""}, {"for", "720h1s", 0, "from 1s to 30d"},
		{"until", "2026-03-01T11:59:59Z", 0, "from 1s to 30d"}, {"until", "2026-03-01T12:00:00Z", 0, "from 1s to 30d"},
		{"until", "2026-03-01T12:00:00.999Z", 0, "from 1s to 30d"}, {"until", "2026-03-01T12:00:01Z", time.Second, ""},
		{"until", "2026-03-31T12:00:00Z", store.MaxOverrideTime, ""}, {"until", "2026-03-31T12:00:01Z", 0,
			"from 1s to 30d"},
		{"until", "12:00:00", 24 * time.Hour, ""}, {"until", "12:00:01", time.Second, ""},
		{"until", "11:59:59", 24*time.Hour - time.Second, ""},
	} {
		lasts, until := "", test.value
		if test.flag == "for" {
			lasts, until = until, ""
		}
		end, err := parseEnd(lasts, until, now)
		if err == nil && !end.Equal(now.Add(test.want)) || (err == nil) != (test.mistake == "") ||
			err != nil && !strings.Contains(err.Error(), test.mistake) {
			t.Errorf("--%s %s ends at %s, %v", test.flag, test.value, end, err)
		}
	}
}

// made returns an override in force for another hour.
func made(t *testing.T, id, subjects string, effect store.OverrideEffect) store.Override {
	t.Helper()
	o := store.Override{ID: id, Effect: effect, Thousandths: 3000, By: "ana", Reason: "ticket " + id,
		ExpiresAt: hour.Add(time.Hour),
		Left:      time.Hour, CreatedAt: hour}
	if subjects != "" {
		pattern, err := store.ParsePattern(subjects)
		if err != nil {
			t.Fatal(err)
		}
		o.Subjects = pattern
	}
	return o
}

var hour = time.Date(2026, 11, 22, 3, 0, 0, 0, time.UTC)

// The date stands where the end is not today.
func TestAnEndTomorrowHasItsDate(t *testing.T) {
	tomorrow := made(t, "aaaaaaaa", "a", store.OverrideBlock)
	tomorrow.ExpiresAt, tomorrow.Left = hour.Add(23*time.Hour), 23*time.Hour
	today := made(t, "bbbbbbbb", "b", store.OverrideBlock)
	today.ExpiresAt = hour.Add(21*time.Hour - time.Second)
	for _, width := range []int{0, 120} {
		var b bytes.Buffer
		(&overrideAnswer{now: hour, overrides: []store.Override{tomorrow, today}}).Print(&output.Printer{Out: &b,
			Width: width})
		if text := b.String(); !strings.Contains(text, "2026-11-23 02:00:00 UTC") || !strings.Contains(text,
			" 23:59:59 UTC") ||
			strings.Contains(text, "2026-11-22") {
			t.Errorf("at width %d:\n%s", width, text)
		}
	}
}

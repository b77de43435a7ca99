package stepin

import (
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // whatever the machine has

	"github.com/spf13/cobra"

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
		{"for", "30d", store.MaxOverrideTime, ""}, {"for", "720h1s", 0, "an override lasts at most 30d"},
		{"until", "2026-03-01T11:59:59Z", 0, "is over"}, {"until", "2026-03-01T12:00:00Z", 0, "is over"},
		{"until", "2026-03-01T12:00:00.999Z", 0, "less than 1s away"}, {"until", "2026-03-01T12:00:01Z", time.Second, ""},
		{"until", "2026-03-31T12:00:00Z", store.MaxOverrideTime, ""}, {"until", "2026-03-31T12:00:01Z", 0, "at most 30d"},
		{"until", "12:00:00", 24 * time.Hour, ""}, {"until", "12:00:01", time.Second, ""},
		{"until", "11:59:59", 24*time.Hour - time.Second, ""},
	} {
		values := map[string]string{}
		command := &cobra.Command{}
		for _, name := range []string{"for", "until"} {
			command.Flags().String(name, "", "")
		}
		if err := command.Flags().Set(test.flag, test.value); err != nil {
			t.Fatal(err)
		}
		values[test.flag] = test.value
		end, err := parseEnd(command, values["for"], values["until"], now)
		if err == nil && !end.Equal(now.Add(test.want)) || (err == nil) != (test.mistake == "") ||
			err != nil && !strings.Contains(err.Error(), test.mistake) {
			t.Errorf("--%s %s ends at %s, %v", test.flag, test.value, end, err)
		}
	}
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	for text, skipped := range map[string]bool{"02:30": true, "2026-03-29 02:59": true, "01:59": false, "03:00": false, "02:30Z": false} {
		end, err := parseUntil(text, time.Date(2026, 3, 28, 12, 0, 0, 0, berlin)) // clocks are set forward in the next night
		if (err != nil) != skipped || skipped && !strings.Contains(err.Error(), "does not exist here") {
			t.Errorf("--until %s ends at %s, %v", text, end, err)
		}
	}
}

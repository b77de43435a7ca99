package stepin

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/allowance"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// made returns an override in force for another hour.
func made(t *testing.T, id, subjects string, effect store.OverrideEffect) store.Override {
	t.Helper()
	o := store.Override{ID: id, Effect: effect, Thousandths: 3000, By: "ana", Reason: "ticket " + id, ExpiresAt: hour.Add(time.Hour),
		Left: time.Hour, CreatedAt: hour}
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

// On a narrow terminal no subject, limit, effect or ID is cut, and no line is wider than the terminal.
func TestANarrowListLosesNothing(t *testing.T) {
	long := made(t, "aaaaaaaa", "tenant:acme:user:7:route:/orders:"+strings.Repeat("x", 60)+"  end", store.OverrideLimit)
	long.Limit, _ = store.ParseLimit("token-bucket:2000/1h,burst=123456")
	long.Reason = strings.Repeat("because of the launch ", 10)
	long.ExpiresAt = hour.Add(22 * time.Hour)
	hostile := made(t, "bbbbbbbb", "", store.OverrideBlock)
	hostile.Subjects, _ = store.ExactPattern("日本\u202e*")
	named := made(t, "cccccccc", "", store.OverrideExempt)
	named.Attributes = map[string]string{"tenant": "globex"}
	named.Names, _ = store.ParsePattern("exports/*")
	short := []store.Override{made(t, "dddddddd", "tenant:acme:*", store.OverrideTimes), named}
	for _, list := range [][]store.Override{short, append([]store.Override{long, hostile}, short...)} {
		for _, width := range []int{20, 40, 80, 100} {
			a := &overrideAnswer{now: hour}
			for i := range list {
				a.overrides = append(a.overrides, &list[i])
			}
			var b bytes.Buffer
			a.Print(&output.Printer{Out: &b, Width: width})
			for line := range strings.Lines(b.String()) {
				if is := output.Width(strings.TrimSuffix(line, "\n")); is > width && !strings.HasPrefix(line, "aaaaaaaa") {
					t.Errorf("%d columns on a terminal of %d: %s", is, width, line)
				}
			}
			joined := strings.ReplaceAll(b.String(), "\n    ", "")
			for i := range list {
				o := &list[i]
				for _, text := range []string{o.ID, output.Printable(allowance.Whom(o)), output.Printable(allowance.Pattern(o.Names)),
					allowance.Effect(o), o.By} {
					if text != "*" && !strings.Contains(strings.ReplaceAll(joined, " ", ""), strings.ReplaceAll(text, " ", "")) {
						t.Errorf("%q is missing at %d columns:\n%s", text, width, b.String())
					}
				}
			}
			if strings.Contains(b.String(), "…") {
				t.Errorf("something is cut at %d columns:\n%s", width, b.String())
			}
		}
	}
}

// The date stands where the end is not today.
func TestAnEndTomorrowHasItsDate(t *testing.T) {
	tomorrow := made(t, "aaaaaaaa", "a", store.OverrideBlock)
	tomorrow.ExpiresAt, tomorrow.Left = hour.Add(23*time.Hour), 23*time.Hour
	today := made(t, "bbbbbbbb", "b", store.OverrideBlock)
	today.ExpiresAt = hour.Add(21*time.Hour - time.Second)
	for _, width := range []int{0, 60} {
		var b bytes.Buffer
		(&overrideAnswer{now: hour, overrides: []*store.Override{&tomorrow, &today}}).Print(&output.Printer{Out: &b, Width: width})
		if text := b.String(); !strings.Contains(text, "2026-11-23 02:00:00 UTC") || !strings.Contains(text, " 23:59:59 UTC") ||
			strings.Contains(text, "2026-11-22") {
			t.Errorf("at width %d:\n%s", width, text)
		}
	}
}

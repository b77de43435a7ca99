package see

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/auditlog"
	"github.com/limitctl/limitctl/internal/began"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

var handedAt = time.Date(2026, 11, 22, 3, 0, 0, 0, time.UTC)

// handed is a handover with so many overrides, changes and denied keys.
func handed(overrides, changes, denied int) *handoverAnswer {
	a := &handoverAnswer{now: handedAt, Place: "prod", denials: denialsAnswer{keys: denied}}
	a.denials.Denied, a.denials.Exact = int64(5*denied), true
	for i := range overrides {
		o := store.Override{ID: fmt.Sprintf("aaaaaa%02d", i), Effect: store.OverrideTimes, Thousandths: 3000, By: "ana",
			Reason: "a launch", Left: time.Hour}
		o.Subjects, _ = store.ParsePattern(fmt.Sprintf("tenant:t%d:%s", i, strings.Repeat("x", i%90)))
		a.inForce = append(a.inForce, &o)
	}
	for i := range changes {
		a.Changes = append(a.Changes, &auditlog.Entry{Time: handedAt, User: "ana", Host: "here", Command: "reset",
			Selection: fmt.Sprintf("'tenant:t%d:*'", i), Outcome: auditlog.Done, Reason: strings.Repeat("why ", i%100)})
	}
	for i := range denied {
		a.denials.rows = append(a.denials.rows, &denialRow{Denied: 5,
			denialGroup: denialGroup{key: store.Key{Subject: fmt.Sprint("user:", i), Name: "n"}}})
	}
	return a
}

// A handover takes one screen, and says how many more there are.
func TestAHandoverFitsTheScreen(t *testing.T) {
	for _, n := range [][3]int{{0, 0, 0}, {4, 5, 5}, {200, 0, 0}, {0, 200, 0}, {200, 200, 10}} {
		for _, size := range [][2]int{{80, 24}, {40, 10}, {120, 50}, {0, 0}} {
			a := handed(n[0], n[1], n[2])
			a.rows, a.Began = size[1], &began.Began{Limits: []*began.Limit{{Line: strings.Repeat("command", 50)}}}
			var b bytes.Buffer
			a.Print(&output.Printer{Out: &b, Width: size[0]})
			lines := strings.Split(b.String(), "\n")
			rows := 0
			for _, line := range lines {
				rows += max(1, (output.Width(line)+size[0]-1)/max(1, size[0]))
				if size[0] > 0 && output.Width(line) > size[0] && !strings.Contains(line, a.Began.Limits[0].Line) {
					t.Errorf("%v at %v has %s", n, size, line)
				}
			}
			if size[1] > 0 && rows > size[1] {
				t.Errorf("%v at %v has %d rows", n, size, rows)
			}
			for i, mark := range []string{"\n  aaaaaa", "  ana@here", "  user:"} {
				shown := strings.Count(b.String(), mark)
				more := fmt.Sprintf("  … and %d more: ", n[i]-shown)
				if size[1] != 10 && shown == 0 && n[i] > 0 || shown < n[i] != strings.Contains(b.String(), more) {
					t.Errorf("%v: %d of %d are shown at %v:\n%s", n, shown, n[i], size, b.String())
				}
			}
		}
	}
}

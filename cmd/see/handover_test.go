package see

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/auditlog"
	"github.com/limitctl/limitctl/internal/outcome"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

var handedAt = time.Date(2026, 11, 22, 3, 0, 0, 0, time.UTC)

// handed is a handover with so many overrides, changes and denied keys.
func handed(t *testing.T, overrides, changes, denied int) *handoverAnswer {
	t.Helper()
	a := &handoverAnswer{now: handedAt, place: "prod"}
	for i := range overrides {
		o := store.Override{ID: fmt.Sprintf("aaaaaa%02d", i), Effect: store.OverrideTimes, Thousandths: 3000, By: "ana",
			Reason: "a launch", ExpiresAt: handedAt.Add(time.Hour), Left: time.Hour, CreatedAt: handedAt}
		o.Subjects, _ = store.ParsePattern(fmt.Sprintf("tenant:t%d:%s", i, strings.Repeat("x", i%90)))
		a.inForce = append(a.inForce, &o)
	}
	for i := range changes {
		a.changes = append(a.changes, &auditlog.Entry{Time: handedAt.Add(-time.Duration(i) * time.Minute), User: "ana",
			Host:      "here",
			Command:   "reset",
			Selection: fmt.Sprintf("'tenant:t%d:*'", i), Outcome: auditlog.Done, Changed: 3,
			Reason: strings.Repeat("why ", i%100)})
	}
	for i := range denied {
		key := store.Key{Subject: fmt.Sprint("user:", i), Name: "n"}
		a.denials.rows = append(a.denials.rows,
			denialRow{Denied: admin.Denied{Count: 5}, denialGroup: denialGroup{key: key}})
		a.denials.total += 5
		a.denials.keys++
	}
	return a
}

// A handover takes one screen, leaves no part out, and says how many more there are.
func TestAHandoverFitsTheScreen(t *testing.T) {
	for _, test := range []struct{ overrides, changes, denied int }{
		{0, 0, 0}, {3, 3, 3}, {4, 5, 5}, {200, 0, 0}, {0, 200, 0},
		{200, 200, 10}, {0, 0, 18}} {
		for _, size := range [][2]int{{80, 24}, {40, 12}, {40, 10}, {120, 50}} {
			a := handed(t, test.overrides, test.changes, test.denied)
			a.rows = size[1]
			var b bytes.Buffer
			a.Print(&output.Printer{Out: &b, Width: size[0]})
			lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
			if len(lines) >= size[1] {
				t.Errorf("%+v: %d rows of %d:\n%s", test, len(lines), size[1], b.String())
			}
			for _, line := range lines {
				if output.Width(line) > size[0] {
					t.Errorf("%d columns on %d: %s", output.Width(line), size[0], line)
				}
			}
			for mark, part := range map[string]struct {
				all     int
				command string
			}{
				"\n  aaaaaa": {test.overrides, "override list"}, "  ana@here": {test.changes, "audit --since 12h"},
				"  user:": {test.denied, "denials"},
			} {
				n := strings.Count(b.String(), mark)
				more := output.Cut(fmt.Sprintf("  … and %d more: limitctl %s", part.all-n, part.command), size[0])
				if n == 0 && part.all > 0 && size[1] > 10 || n < part.all != strings.Contains(b.String(), more) {
					t.Errorf("%+v: %d of %d are shown at %v, and no %q:\n%s", test, n, part.all, size, more, b.String())
				}
			}
		}
	}
	a := handed(t, 200, 200, 10)
	var b bytes.Buffer
	a.Print(&output.Printer{Out: &b})
	if strings.Contains(b.String(), "more:") || strings.Count(b.String(), "  aaaaaa") != 200 {
		t.Errorf("without a terminal something is left out:\n%s", b.String())
	}
}

// Some parts are an error of their own; none is the error itself.
func TestAHandoverWithoutAPart(t *testing.T) {
	a := handed(t, 2, 1, 0)
	a.failed[partChanges] = errors.New("no \x1b[31mright")
	var b bytes.Buffer
	a.Print(&output.Printer{Out: &b, Width: 80})
	if text := b.String(); !strings.Contains(text, "1 run; not all can be read\n  no \\x1b[31mright\n") ||
		!strings.Contains(text, "2 overrides\n") {
		t.Errorf("printed:\n%s", text)
	}
	if !errors.Is(a.err(), outcome.ErrPartly) {
		t.Errorf("the error is %v", a.err())
	}
	none := handed(t, 0, 0, 0)
	none.failed = [handoverParts]error{store.ErrForeign, store.ErrForeign, errors.New("gone"), store.ErrForeign}
	b.Reset()
	none.Print(&output.Printer{Out: &b, Width: 80})
	for _, line := range []string{"IN FORCE  cannot be read\n", "CHANGED in the last 12h  cannot be read\n  gone\n",
		"DENIED in the last 10m  cannot be read\n"} {
		if !strings.Contains(b.String(), line) {
			t.Errorf("no %q in:\n%s", line, b.String())
		}
	}
	a.failed = [handoverParts]error{store.ErrRefused, store.ErrRefused, store.ErrRefused, store.ErrRefused}
	if errors.Is(a.err(), outcome.ErrPartly) || !errors.Is(a.err(), store.ErrRefused) {
		t.Errorf("without any part the error is %v", a.err())
	}
	a.failed = [handoverParts]error{}
	if a.err() != nil {
		t.Errorf("with all parts the error is %v", a.err())
	}
}

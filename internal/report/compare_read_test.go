package report

import (
	"bytes"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/mattn/go-runewidth"

	"github.com/limitctl/limitctl/internal/output"
)

// Whatever a file holds, it is a document that can be shown and compared, or
// an error in one line.
func FuzzRead(f *testing.F) {
	for _, name := range []string{"run", "base", "new", "worse"} {
		data, err := saved(name).Save()
		if err != nil {
			f.Fatal(name, err)
		}
		f.Add(data)
	}
	f.Add([]byte(`{"schema_version":1,"kind":"loadtest","runs":[` +
		`{"timeline":[{"offset_ms":-9223372036854775808},{"offset_ms":9223372036854775807}],"interval_ms":-1,"heat":[{"keys":-1}]}]}`))
	f.Add([]byte(`{"schema_version":1,"kind":"loadtest","runs":[{"requests":2,"allowed":2,` +
		`"duration_ms":1000000000000000,` +
		`"warmup_ms":1000000000000000,"interval_ms":1000000000000000,` +
		`"timeline":[{"allowed":1},{"offset_ms":1000000000000000,"allowed":1}]}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		d, err := Read("x.json", data)
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("%q", err)
			}
			return
		}
		Printed(Answer{Report: d}, 80)
		if text := fmt.Sprint(Answer{Report: d}.Records()); strings.Contains(text, "NaN") ||
			strings.Contains(text, "Inf") {
			t.Errorf("%.300s", text)
		}
		if _, err := (Answer{Report: d}).HTML(); err != nil {
			t.Error(err)
		}
		if c, err := Compare([]Named{{Name: "a", Document: d}}, Named{Name: "b", Document: d},
			0.25); err == nil {
			Printed(c, 80)
			if c.Regressions != 0 {
				t.Errorf("a report is worse than itself: %+v", c)
			}
		}
	})
}

// Whatever is in it, a report fits the terminal, and shows no character that is
// invisible or that turns others around, in any format.
func TestReportsOfStrangersAreText(t *testing.T) {
	styles := regexp.MustCompile("\x1b\\[([0127]|3[123])m")
	for _, d := range slices.AppendSeq(Strangers(), maps.Values(Fixtures())) {
		answers := []output.Answer{Answer{Report: d}}
		base := Named{Name: "a\x1b[2J\nforged", Document: d}
		if c, err := Compare([]Named{base}, Named{Name: "b", Document: d}, 0); err == nil {
			answers = append(answers, c)
		}
		for _, a := range answers {
			for _, width := range []int{0, 40, 80, 200} {
				var b bytes.Buffer
				if err := (&output.Printer{Out: &b, Width: width, Color: width == 200}).Answer(a); err != nil {
					t.Fatal(err)
				}
				text := styles.ReplaceAllString(b.String(), "")
				if line := Obeyed(text); line != "" {
					t.Errorf("%T: a terminal obeys something in %q", a, line)
				}
				for line := range strings.Lines(text) {
					if got := runewidth.StringWidth(strings.TrimSuffix(line, "\n")); width > 0 && got > width {
						t.Errorf("%T: a line of %d columns on a terminal of %d:\n%s", a, got, width, line)
					}
				}
			}
			for _, format := range []output.Format{"json", "jsonl", "csv"} {
				var b bytes.Buffer
				if err := (&output.Printer{Data: &b, Format: format}).Answer(a); err != nil || format != "csv" &&
					Obeyed(b.String()) != "" {
					t.Errorf("%T as %s: %v, %q", a, format, err, Obeyed(b.String()))
				}
			}
		}
	}
}

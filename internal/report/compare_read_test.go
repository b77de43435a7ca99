package report

import (
	"bytes"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/mattn/go-runewidth"

	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/internal/tier"
)

// Whatever a file holds, it is a document that can be shown and compared, or
// an error in one line.
func FuzzRead(f *testing.F) {
	for name, d := range Saved() {
		data, err := d.Save()
		if err != nil {
			f.Fatal(name, err)
		}
		f.Add(data)
	}
	f.Add([]byte(`{"schema_version":1,"kind":"loadtest","runs":[` +
		`{"timeline":[{"offset_ms":-9223372036854775808},{"offset_ms":9223372036854775807}],"interval_ms":-1,"heat":[{"keys":-1}]}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		d, err := Read("x.json", data)
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("%q", err)
			}
			return
		}
		Printed(Answer{Report: d}, 80)
		Answer{Report: d}.Records()
		if err := (Answer{Report: d}).HTML(io.Discard); err != nil {
			t.Error(err)
		}
		if c, err := Compare([]Named{{Name: "a", Document: d}}, Named{Name: "b", Document: d},
			CompareOptions{Margin: 0.25}); err == nil {
			Printed(c, 80)
			if c.Regressions != 0 {
				t.Errorf("a report is worse than itself: %+v", c)
			}
		}
	})
}

// Whatever is in it, a report fits the terminal, and shows no character that is
// invisible or that turns others around.
func TestReportsFitTheTerminal(t *testing.T) {
	comparison, err := Compare([]Named{{Name: "base.json", Document: Saved()["base.json"]}},
		Named{Name: "worse.json", Document: Saved()["worse.json"]}, CompareOptions{Margin: 0.25})
	if err != nil {
		t.Fatal(err)
	}
	answers := map[string]output.Answer{"comparison": comparison}
	for name, d := range Fixtures() {
		answers[name] = Answer{Report: d}
	}
	for name, a := range answers {
		for _, width := range []int{40, 60, 80, 120} {
			for line := range strings.Lines(Printed(a, width)) {
				line = strings.TrimSuffix(line, "\n")
				if got := runewidth.StringWidth(line); got > width {
					t.Errorf("%s: a line of %d columns on a terminal of %d:\n%s", name, got, width, line)
				}
				if strings.ContainsAny(line, "\u202e\x00\n\x1b") {
					t.Errorf("%s: invisible characters in %q", name, line)
				}
			}
		}
	}
}

func TestReportsOfStrangersAreText(t *testing.T) {
	tier.Full(t, "hostile servers, files and texts, which many commands meet")
	styles := regexp.MustCompile("\x1b\\[([0127]|3[123])m")
	for _, d := range Strangers() {
		answers := []output.Answer{Answer{Report: d}}
		base := Named{Name: "a\x1b[2J\nforged", Document: d}
		if c, err := Compare([]Named{base}, Named{Name: "b", Document: d}, CompareOptions{Margin: 0.25}); err == nil {
			answers = append(answers, c)
		}
		for _, a := range answers {
			for _, width := range []int{0, 40, 200} {
				var b bytes.Buffer
				if err := (&output.Printer{Out: &b, Width: width, Color: width == 200}).Answer(a); err != nil {
					t.Fatal(err)
				}
				if line := Obeyed(styles.ReplaceAllString(b.String(), "")); line != "" {
					t.Errorf("%T: a terminal obeys something in %q", a, line)
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

package compare

import (
	"bytes"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/mattn/go-runewidth"

	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/internal/report"
	"github.com/limitctl/limitctl/internal/report/sample"
	"github.com/limitctl/limitctl/internal/report/show"
	"github.com/limitctl/limitctl/internal/tier"
)

// Whatever a file holds, it is a document that can be shown and compared, or
// an error in one line.
func FuzzRead(f *testing.F) {
	for name, d := range sample.Saved() {
		data, err := d.Save()
		if err != nil {
			f.Fatal(name, err)
		}
		f.Add(data)
	}
	f.Add([]byte(`{"schema_version":1,"kind":"loadtest","runs":[` +
		`{"timeline":[{"offset_ms":-9223372036854775808},{"offset_ms":9223372036854775807}],"interval_ms":-1,"heat":[{"keys":-1}]}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		d, err := report.Read("x.json", data)
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("%q", err)
			}
			return
		}
		sample.Printed(show.Answer{Report: d}, 80)
		show.Answer{Report: d}.Records()
		if err := (show.Answer{Report: d}).HTML(io.Discard); err != nil {
			t.Error(err)
		}
		if c, err := Reports([]report.Named{{Name: "a", Document: d}}, report.Named{Name: "b", Document: d}, Options{}); err == nil {
			sample.Printed(c, 80)
			if c.Regressions != 0 {
				t.Errorf("a report is worse than itself: %+v", c)
			}
		}
	})
}

// Whatever is in it, a report fits the terminal, and shows no character that is
// invisible or that turns others around.
func TestReportsFitTheTerminal(t *testing.T) {
	comparison, err := Reports([]report.Named{{Name: "base.json", Document: sample.Saved()["base.json"]}},
		report.Named{Name: "worse.json", Document: sample.Saved()["worse.json"]}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	answers := map[string]output.Answer{"comparison": comparison}
	for name, d := range sample.Fixtures() {
		answers[name] = show.Answer{Report: d}
	}
	for name, a := range answers {
		for _, width := range []int{40, 60, 80, 120} {
			for line := range strings.Lines(sample.Printed(a, width)) {
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
	for _, d := range sample.Strangers() {
		answers := []output.Answer{show.Answer{Report: d}}
		base := report.Named{Name: "a\x1b[2J\nforged", Document: d}
		if c, err := Reports([]report.Named{base}, report.Named{Name: "b", Document: d}, Options{}); err == nil {
			answers = append(answers, c)
		}
		for _, a := range answers {
			for _, width := range []int{0, 40, 200} {
				var b bytes.Buffer
				if err := (&output.Printer{Out: &b, Width: width, Color: width == 200}).Answer(a); err != nil {
					t.Fatal(err)
				}
				if line := sample.Obeyed(styles.ReplaceAllString(b.String(), "")); line != "" {
					t.Errorf("%T: a terminal obeys something in %q", a, line)
				}
			}
			for _, format := range []output.Format{"json", "jsonl", "csv"} {
				var b bytes.Buffer
				if err := (&output.Printer{Data: &b, Format: format}).Answer(a); err != nil || format != "csv" &&
					sample.Obeyed(b.String()) != "" {
					t.Errorf("%T as %s: %v, %q", a, format, err, sample.Obeyed(b.String()))
				}
			}
		}
	}
}

package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/internal/hostiletext"
	"github.com/limitctl/limitctl/internal/tier"
)

// strangers returns documents that hold what strangers write wherever there is text. They
// are read from files, as those of others are.
func strangers(t *testing.T) (all []*Document) {
	t.Helper()
	usual := loadRun("token-bucket", 1, 1, 0)
	for texts := range slices.Chunk(hostiletext.Texts(), 8) {
		d := New(LoadTest)
		for i, text := range texts {
			run := usual
			run.Algorithm, run.Limit, run.Policy, run.Implementation, run.Store, run.Load, run.Scenario = text, text, text, text, text,
				text, text
			run.Limits = []Limit{{Name: text, Algorithm: text, Limit: text}, {Name: text + "2", Limit: text}}
			run.MostDenied = []KeyCount{{Key: text, Denied: 2, Allowed: 1}}
			run.ErrorTexts, run.Warnings = []ErrorCount{{Text: text, Count: 1}}, []string{text}
			run.Requests++
			run.Errors++
			d.Runs = append(d.Runs, run)
			d.Thresholds = append(d.Thresholds, Threshold{Expression: text, Actual: text, Run: i})
			d.Suggestions = append(d.Suggestions, Suggestion{Promise: text, Algorithm: text, Limit: text, Actual: text, Below: text,
				Kept: i%2 == 0})
		}
		data, err := d.Save()
		if err != nil {
			t.Fatal(err)
		}
		if d, err = Read("x.json", data); err != nil {
			t.Fatal(err)
		}
		all = append(all, d)
		d = New(LoadTest)
		d.Runs = all[len(all)-1].Runs[:1]
		all = append(all, d)
	}
	return all
}

// obeyed is a line of text in which something is not seen.
func obeyed(text string) string {
	for line := range strings.SplitSeq(text, "\n") {
		if line = strings.TrimLeft(line, "\t"); output.Escape(line) != line {
			return line
		}
	}
	return ""
}

func TestReportsOfStrangersAreText(t *testing.T) {
	tier.Full(t, "hostile servers, files and texts, which many commands meet")
	styles := regexp.MustCompile("\x1b\\[([0127]|3[123])m")
	for _, d := range strangers(t) {
		answers := []output.Answer{d}
		if merged, err := Merge([]Named{{"a\x1b[2J", d}, {"b", d}}); err == nil {
			answers = append(answers, merged)
		}
		if c, err := Compare([]Named{{"a\x1b[2J\nforged", d}}, Named{"b", d}, CompareOptions{Margins: DefaultMargins()}); err == nil {
			answers = append(answers, c)
		}
		for _, a := range answers {
			for _, width := range []int{0, 40, 200} {
				var b bytes.Buffer
				if err := (&output.Printer{Out: &b, Width: width, Color: width == 200}).Answer(a); err != nil {
					t.Fatal(err)
				}
				if line := obeyed(styles.ReplaceAllString(b.String(), "")); line != "" {
					t.Errorf("%T: a terminal obeys something in %q", a, line)
				}
			}
			for _, format := range []output.Format{"json", "jsonl", "yaml", "csv"} {
				var b bytes.Buffer
				if err := (&output.Printer{Data: &b, Format: format}).Answer(a); err != nil || format != "csv" && obeyed(b.String()) != "" {
					t.Errorf("%T as %s: %v, %q", a, format, err, obeyed(b.String()))
				}
			}
		}
	}
}

func TestPagesOfStrangersInABrowser(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	for i, d := range strangers(t) {
		page := pageOf(t, d)
		if line := obeyed(string(page)); line != "" || !utf8.Valid(page) {
			t.Errorf("the page has %.200q", line)
		}
		b.show(page, 400, "light")
		for _, width := range []int{400, 1400} {
			b.turn(width, "light")
			var problems []string
			b.evaluate(overflowing, &problems)
			if len(problems) > 0 {
				t.Errorf("page %d at %d: %q", i, width, problems[:min(len(problems), 4)])
			}
			foreign, title := 0, ""
			b.evaluate(`document.querySelectorAll("script, img, iframe, object, embed, link, form, a, base, [onload], [onerror]").length`, &foreign)
			b.evaluate("document.title", &title)
			if foreign != 0 || len(b.asked) != 1 || output.Escape(title) != title {
				t.Errorf("page %d has %d elements that it should not have, asks for %q, and is called %q", i, foreign, b.asked, title)
			}
		}
	}
}

func TestReportsThatAreAttacks(t *testing.T) {
	tier.Full(t, "hostile servers, files and texts, which many commands meet")
	for _, fields := range []string{`"requests":1e308`, `"requests":-1`, `"rate":1e308`, `"rate":NaN`, `"rate":-1`,
		`"requests":9223372036854775808`, `"latency_us":{"p50":-1}`,
		`"audit":{"key_sums":{"keys":1,"sum":1e308,"sum_of_squares":1e308}}`, `"audit":{"worst_window_ratio":1e300}`,
		`"neighbours":{"denied":-5}`, `"neighbours":{"allowed":9e18}`,
		`"workers":-1`, `"limits":[{"denied":-1}]`, `"heat":[{"keys":-1}]`, `"cost":{"server_cpu_us":-1}`,
		`"timeline":` + strings.Repeat("[", 100_000), `"warnings":[{}]`,
		`"timeline":[{"offset_ms":1}],"interval_ms":0`, `"started_at":"yesterday"`, `"histograms":{"latency_us":5}`} {
		d, err := Read("x.json", []byte(`{"schema_version":1,"kind":"loadtest","runs":[{`+fields+`}]}`))
		if err == nil || d != nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%.60s is read: %v", fields, err)
		}
	}
	many := `{"schema_version":1,"kind":"loadtest","runs":[{}` + strings.Repeat(",{}", maxRuns) + `]}`
	if _, err := Read("x.json", []byte(many)); err == nil {
		t.Errorf("a report of %d runs is read", maxRuns+1)
	}
	// What is large and whole is shown.
	d := New(LoadTest)
	usual := loadRun("token-bucket", 1, 1, 0)
	for range 10 { // as many as fit in a saved report
		run := usual
		run.Timeline, run.IntervalMS = nil, 1
		for j := range 5000 {
			run.Timeline = append(run.Timeline, Interval{OffsetMS: int64(j), Allowed: mostOfAnything, P99: mostOfAnything})
		}
		d.Runs = append(d.Runs, run)
	}
	data, err := d.Save()
	if err == nil {
		d, err = Read("x.json", data)
	}
	if err != nil {
		t.Fatal(err)
	}
	printed(d, 80)
	pageOf(t, d)
	for _, a := range []any{d.Document(), d.Lines()} {
		if _, err := json.Marshal(a); err != nil {
			t.Error(err)
		}
	}
	if text := fmt.Sprint(d.Records()); strings.Contains(text, "NaN") || strings.Contains(text, "Inf") {
		t.Errorf("%.300s", text)
	}
}

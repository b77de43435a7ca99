package report

import (
	"bytes"
	"encoding/csv"
	"strings"
	"testing"

	"github.com/mattn/go-runewidth"

	"github.com/limitctl/limitctl/cmd/internal/output"
)

func printed(a output.Answer, width int) string {
	var b bytes.Buffer
	a.Print(&output.Printer{Out: &b, Width: width})
	return b.String()
}

// Whatever is in it, a report fits the terminal, and shows no character that is
// invisible or that turns others around.
func TestReportsFitTheTerminal(t *testing.T) {
	comparison, err := Compare([]Named{{"base.json", saved()["base.json"]}}, Named{"worse.json", saved()["worse.json"]},
		CompareOptions{Margins: DefaultMargins()})
	if err != nil {
		t.Fatal(err)
	}
	answers := map[string]output.Answer{"comparison": comparison}
	for name, d := range fixtures() {
		answers[name] = d
	}
	for name, a := range answers {
		for _, width := range []int{40, 60, 80, 120} {
			for line := range strings.Lines(printed(a, width)) {
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

func TestVerdictsInWords(t *testing.T) {
	for want, audit := range map[string]Audit{
		"✓ never more than the limit":                                           {WorstWindowRatio: 1},
		"! let 1.97 × the limit through in one period, as this algorithm may":   {WorstWindowRatio: 1.97},
		"! let 1.0004 × the limit through in one period, as this algorithm may": {WorstWindowRatio: 1.0004},
		"✗ admitted 1 unit too many; let 1.01 × the limit through in one period": {
			WorstWindowRatio: 1.01, OverAdmitted: 1,
		},
		"✗ never more than the limit; denied 1,200 units that fitted": {
			WorstWindowRatio: 0.9, UnderAdmitted: 1200,
		},
		"✗ let 1.97 × the limit through in one period; denied 2 units that fitted": {
			WorstWindowRatio: 1.97, UnderAdmitted: 2,
		},
		"✗ admitted 3 units too many; let 2.00 × the limit through in one period; denied 2 units that fitted": {
			WorstWindowRatio: 2, OverAdmitted: 3, UnderAdmitted: 2,
		},
	} {
		f := (&Run{Figures: Figures{Requests: 10, Audit: audit}}).verdict()
		if got := f.mark() + " " + f.text; got != want {
			t.Errorf("%+v: %s, want %s", audit, got, want)
		}
	}
	if f := (&Run{Figures: Figures{Audit: Audit{WorstWindowRatio: 0}}}).verdict(); f.text != "nothing was sent, so nothing is known" {
		t.Errorf("of no requests: %s", f.text)
	}
}

// What makes the figures worthless comes before them.
func TestWarningsComeFirst(t *testing.T) {
	text := printed(racing(), 0)
	at := -1
	for _, want := range []string{
		"FAIL       admitted 10 units too many",
		"! interrupted",
		"✗ the load generator was the limit, not the store",
		"✗ 1,203 of 31,625 arrivals were dropped (3.8%)",
		"✗ 312 requests ended in an error (1.0%); 12 of them may have been charged all the same",
		"300 × redis://localhost:6379 did not answer within 2s",
		"! the server's clock stepped back by 3 ms",
		"limit      token-bucket 100/10s (naive)",
		"✗ admitted 10 units too many; let 1.31 × the limit through in one period",
		"hourly sliding-log:1000/1h (shadow)",
	} {
		next := strings.Index(text, want)
		if next <= at {
			t.Errorf("%q is missing, or too early, in\n%s", want, text)
		}
		at = next
	}
}

// Several runs are one table, which does without what matters least on a narrow terminal.
func TestComparisonOfRuns(t *testing.T) {
	wide, narrow := printed(fiveRuns(), 120), printed(fiveRuns(), 40)
	for _, want := range []string{
		"LIMIT", "REQUESTS", "ALLOWED", "WORST", "OVER", "UNDER", "p50", "p99", "THROUGHPUT", "SERVER µs", "BYTES/KEY",
		"fixed-window 100/10s       29,912      35%  1.97 ×", "1,180",
	} {
		if !strings.Contains(wide, want) {
			t.Errorf("%q is missing in\n%s", want, wide)
		}
	}
	for _, want := range []string{"LIMIT", "ALLOWED", "WORST", "OVER", "1.97 ×"} {
		if !strings.Contains(narrow, want) {
			t.Errorf("%q is missing in\n%s", want, narrow)
		}
	}
	if missed := strings.Index(wide, "✗ p99<5ms: 666.623ms with leaky-bucket 100/10s"); missed < 0 ||
		missed > strings.Index(wide, "✓ p99<5ms") {
		t.Errorf("the missed threshold does not come first:\n%s", wide)
	}
}

// A simulation has keys and no latencies, on the terminal as in CSV.
func TestSimulationsHaveNoLatencies(t *testing.T) {
	d := simulation()
	d.Runs = d.Runs[:1]
	d.Thresholds = nil
	text := printed(d, 80)
	for _, unwanted := range []string{"latency", "p99", "fast?", "cost?"} {
		if strings.Contains(text, unwanted) {
			t.Errorf("%q is in\n%s", unwanted, text)
		}
	}
	for _, want := range []string{"keys       1,753, 31 of them denied at least once (1.8%)", "MOST DENIED", "ip:203.0.113.9", "▁", "█"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	records := d.Records()
	for i, column := range records[0] {
		if got := records[1][i]; strings.HasPrefix(column, "latency_") && got != "" || column == "keys_denied" && got != "31" {
			t.Errorf("%s is %q", column, got)
		}
	}
}

func TestRecordsAreRectangular(t *testing.T) {
	for name, d := range fixtures() {
		var b bytes.Buffer
		if err := csv.NewWriter(&b).WriteAll(d.Records()); err != nil {
			t.Fatal(err)
		}
		rows, err := csv.NewReader(&b).ReadAll()
		if err != nil || len(rows) != len(d.Runs)+1 {
			t.Errorf("%s: %d rows, %v", name, len(rows), err)
		}
	}
}

func TestSparkline(t *testing.T) {
	if got := sparkline([]int64{0, 1, 50, 99, 100}, 100); got != "·▁▅▇█" && got != "·▁▅██" {
		t.Errorf("it is %s", got)
	}
}

func TestFiguresInWords(t *testing.T) {
	for _, test := range []struct{ got, want string }{
		{ratio(1), "1.00 ×"}, {
			ratio(1.004), "1.004 ×",
		}, {ratio(0.999), "0.999 ×"}, {ratio(1.97), "1.97 ×"}, {ratio(0), "0.00 ×"}, {ratio(10), "10.00 ×"},
		{share(0, 5), "0%"}, {share(1, 10_000), "<0.1%"}, {
			share(9_999, 10_000), ">99.9%",
		}, {share(5, 5), "100%"}, {share(1, 3), "33%"}, {share(1, 0), "-"}, {share(23, 1000), "2.3%"},
		{micros(0), "0 µs"}, {micros(999), "999 µs"}, {micros(1240), "1.24 ms"}, {
			micros(999_499), "999 ms",
		}, {micros(999_500), "1 s"}, {micros(1_003_000), "1 s"}, {micros(72_000_000), "72 s"},
		{output.Thousands(0), "0"}, {output.Thousands(-1234), "-1,234"}, {output.Thousands(999), "999"}, {
			output.Thousands(1_000_000), "1,000,000",
		}, {decimal(0.31), "0.31"}, {decimal(0.0123), "0.012"}, {decimal(9.996), "10"}, {decimal(1180.4), "1,180"},
	} {
		if test.got != test.want {
			t.Errorf("%s, want %s", test.got, test.want)
		}
	}
}

// The scenario of the noisy neighbour asks whether any other key was denied.
func TestNeighboursAreToldOf(t *testing.T) {
	run := Run{Figures: Figures{Requests: 12, Allowed: 5, Denied: 7}, Neighbours: &KeyCount{Key: "all others", Allowed: 4, Denied: 1}}
	const alarm = "! others than the noisy key were denied, too: 5 requests of all others, 1 denied\n"
	const line = "neighbours 5 requests of all others, 1 denied\n"
	if got := printed(&Document{Kind: LoadTest, Runs: []Run{run}}, 120); !strings.Contains(got, alarm) || !strings.Contains(got, line) {
		t.Errorf("neighbours that were denied:\n%s", got)
	}
	run.Neighbours.Denied = 0
	if got := printed(&Document{Kind: LoadTest, Runs: []Run{run}}, 120); strings.Contains(got, "denied, too") ||
		!strings.Contains(got, "neighbours 4 requests of all others, 0 denied\n") {
		t.Errorf("neighbours that were not denied:\n%s", got)
	}
}

package show

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"strings"
	"testing"

	"github.com/limitctl/limitctl/cmd/internal/report"
	"github.com/limitctl/limitctl/cmd/internal/report/sample"
	"github.com/limitctl/limitctl/pkg/loadgen/audit"
)

// Histograms are for files: what is printed has none, and the document keeps its own.
func TestPrintedDocumentsHaveNoHistograms(t *testing.T) {
	d := sample.FiveRuns()
	for _, value := range append(Answer{d}.Lines(), Answer{d}.Document()) {
		text, err := json.Marshal(value)
		if err != nil || bytes.Contains(text, []byte("histograms")) {
			t.Errorf("printed: %.200s (%v)", text, err)
		}
	}
	if d.Runs[0].Histograms == nil {
		t.Error("printing took the histograms away")
	}
}

func TestVerdictsInWords(t *testing.T) {
	for want, totals := range map[string]audit.Totals{
		"✓ never more than the limit": {
			WorstRatio: 1,
		},
		"! let 1.97 × the limit through in one period, as this algorithm may": {
			WorstRatio: 1.97,
		},
		"! let 1.0004 × the limit through in one period, as this algorithm may": {
			WorstRatio: 1.0004,
		},
		"✗ admitted 1 unit too many; let 1.01 × the limit through in one period": {
			WorstRatio: 1.01, OverAdmitted: 1,
		},
		"✗ denied 1,200 units that fitted; never more than the limit": {
			WorstRatio: 0.9, UnderAdmitted: 1200,
		},
		"✗ denied 2 units that fitted; let 1.97 × the limit through in one period, as this algorithm may": {
			WorstRatio: 1.97, UnderAdmitted: 2,
		},
		"✗ admitted 3 units too many; let 2.00 × the limit through in one period; denied 2 units that fitted": {
			WorstRatio: 2, OverAdmitted: 3, UnderAdmitted: 2,
		},
	} {
		f := verdictOf(&report.Run{Figures: report.Figures{Requests: 10, Audit: report.Audit{Totals: totals}}})
		if got := f.mark() + " " + f.text; got != want {
			t.Errorf("%+v: %s, want %s", totals, got, want)
		}
	}
	failed := report.Run{Figures: report.Figures{Requests: 10, Errors: 10}}
	if f := verdictOf(&failed); f.mark()+f.text != "!no request was answered, so nothing is known" {
		t.Errorf("of no answers: %s %s", f.mark(), f.text)
	}
	nothing := report.Run{Figures: report.Figures{Audit: report.Audit{Totals: audit.Totals{WorstRatio: 0}}}}
	if f := verdictOf(&nothing); f.text != "nothing was sent, so nothing is known" {
		t.Errorf("of no requests: %s", f.text)
	}
}

// What makes the figures worthless comes before them.
func TestWarningsComeFirst(t *testing.T) {
	text := sample.Printed(Answer{sample.Racing()}, 0)
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
	wide, narrow := sample.Printed(Answer{sample.FiveRuns()}, 120), sample.Printed(Answer{sample.FiveRuns()}, 40)
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
	d := sample.Simulation()
	d.Runs = d.Runs[:1]
	d.Thresholds = nil
	text := sample.Printed(Answer{d}, 80)
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
	records := Answer{d}.Records()
	for i, column := range records[0] {
		if got := records[1][i]; strings.HasPrefix(column, "latency_") && got != "" || column == "keys_denied" && got != "31" {
			t.Errorf("%s is %q", column, got)
		}
	}
}

func TestRecordsAreRectangular(t *testing.T) {
	for name, d := range sample.Fixtures() {
		var b bytes.Buffer
		if err := csv.NewWriter(&b).WriteAll(Answer{d}.Records()); err != nil {
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

// The scenario of the noisy neighbour asks whether any other key was denied.
func TestNeighboursAreToldOf(t *testing.T) {
	run := report.Run{Figures: report.Figures{Requests: 12, Allowed: 5, Denied: 7},
		Neighbours: &report.KeyCount{Key: "all others", Allowed: 4, Denied: 1}}
	const alarm = "! others than the noisy key were denied, too: 5 requests of all others, 1 denied\n"
	const line = "neighbours 5 requests of all others, 1 denied\n"
	if got := sample.Printed(Answer{&report.Document{Kind: report.LoadTest, Runs: []report.Run{run}}}, 120); !strings.Contains(got,
		alarm) || !strings.Contains(got, line) {
		t.Errorf("neighbours that were denied:\n%s", got)
	}
	run.Neighbours.Denied = 0
	if got := sample.Printed(Answer{&report.Document{Kind: report.LoadTest, Runs: []report.Run{run}}}, 120); strings.Contains(got,
		"denied, too") ||
		!strings.Contains(got, "neighbours 4 requests of all others, 0 denied\n") {
		t.Errorf("neighbours that were not denied:\n%s", got)
	}
}

package report

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/limitctl/limitctl/pkg/loadgen"
	"github.com/limitctl/limitctl/pkg/loadgen/audit"
)

// Histograms are for files: what is printed has none, and the document keeps its own.
func TestPrintedDocumentsHaveNoHistograms(t *testing.T) {
	d := FiveRuns()
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
	for _, test := range []struct {
		want   string
		totals audit.Totals
	}{
		{"✓ never more than the limit", audit.Totals{WorstRatio: 1}},
		{"! let 1.97 × the limit through in one period, as this algorithm may", audit.Totals{WorstRatio: 1.97}},
		{"! let 1.0004 × the limit through in one period, as this algorithm may", audit.Totals{WorstRatio: 1.0004}},
		{"✗ admitted 1 unit too many; let 1.01 × the limit through in one period", audit.Totals{WorstRatio: 1.01, OverAdmitted: 1}},
		{"✗ denied 1,200 units that fitted; never more than the limit", audit.Totals{WorstRatio: 0.9, UnderAdmitted: 1200}},
		{"✗ denied 2 units that fitted; let 1.97 × the limit through in one period, as this algorithm may",
			audit.Totals{WorstRatio: 1.97, UnderAdmitted: 2}},
		{"✗ admitted 3 units too many; let 2.00 × the limit through in one period; denied 2 units that fitted",
			audit.Totals{WorstRatio: 2, OverAdmitted: 3, UnderAdmitted: 2}},
	} {
		f := verdictOf(&Run{Result: loadgen.Result{Requests: 10, Audit: loadgen.Audit{Totals: test.totals}}})
		if got := f.mark() + " " + f.text; got != test.want {
			t.Errorf("%+v: %s, want %s", test.totals, got, test.want)
		}
	}
	for want, figures := range map[string]loadgen.Result{
		"no request was answered, so nothing is known": {Requests: 10, Errors: 10},
		"nothing was sent, so nothing is known":        {},
	} {
		if f := verdictOf(&Run{Result: figures}); f.mark()+f.text != "!"+want {
			t.Errorf("%s %s, want %s", f.mark(), f.text, want)
		}
	}
}

// What makes the figures worthless comes before them.
func TestWarningsComeFirst(t *testing.T) {
	text := Printed(Answer{Racing()}, 0)
	at := -1
	for _, want := range []string{
		"FAIL       admitted 10 units too many",
		"! interrupted",
		"! the load generator was the limit, not the store: times are upper bounds, throughput is not judged; correctness is",
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
	wide, narrow := Printed(Answer{FiveRuns()}, 120), Printed(Answer{FiveRuns()}, 40)
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
	if missed := strings.Index(wide, "✗ leaky-bucket 100/10s: p99<5ms was missed: 666.623ms"); missed < 0 ||
		missed > strings.Index(wide, "✓ ") {
		t.Errorf("the missed threshold does not come first:\n%s", wide)
	}
}

// A simulation has keys and no latencies, on the terminal as in CSV.
func TestSimulationsHaveNoLatencies(t *testing.T) {
	d := Simulated()
	d.Runs = d.Runs[:1]
	d.Thresholds = nil
	text := Printed(Answer{d}, 80)
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
	for name, d := range Fixtures() {
		for i, row := range (Answer{d}).Records() {
			if want := len(Answer{d}.Records()[0]); len(row) != want {
				t.Errorf("%s: %d fields in record %d, want %d", name, len(row), i, want)
			}
		}
	}
}

func TestSparkline(t *testing.T) {
	if got := sparkline([]int64{0, 1, 50, 99, 100}, 100); got != "·▁▅▇█" && got != "·▁▅██" {
		t.Errorf("it is %s", got)
	}
}

// The warm-up, of which nothing is counted, is no outage.
func TestTheWarmUpIsDrawn(t *testing.T) {
	d := OneRun()
	r := &d.Runs[0]
	r.WarmupMS, r.IntervalMS = 2000, 1000
	r.Timeline = []loadgen.Interval{{}, {OffsetMS: 1000}, {OffsetMS: 2000}, {OffsetMS: 3000, Allowed: 5}}
	const drawn = "\nallowed    ░░·█\ndenied     ░░··\nwarm-up    ░: what was answered then is only audited\n"
	if text := Printed(Answer{d}, 0); !strings.Contains(text, drawn) {
		t.Errorf("%s", text)
	}
	p := newPage(d)
	if chart := string(p.Runs[0].Chart); !slices.Equal(p.Outcomes, []string{"allowed", warmUp}) ||
		strings.Count(chart, ": warm-up, not counted") != 2 ||
		!strings.Contains(chart, `<path class="warm-up" d="M0 1000H250V0H0zM250 1000H500V0H250z"/>`) {
		t.Errorf("%v, %s", p.Outcomes, chart)
	}
	r.WarmupMS = 0
	if text := Printed(Answer{d}, 0); strings.Contains(text, "░") || slices.Contains(newPage(d).Outcomes, warmUp) {
		t.Errorf("%s", text)
	}
}

// The scenario of the noisy neighbour asks whether any other key was denied.
func TestNeighboursAreToldOf(t *testing.T) {
	run := Run{Result: loadgen.Result{Requests: 12, Allowed: 5, Denied: 7},
		Neighbours: &KeyCount{Key: "all others", Allowed: 4, Denied: 1}}
	const alarm = "! others than the noisy key were denied, too: 5 requests of all others, 1 denied\n"
	for denied, line := range []string{"neighbours 4 requests of all others, 0 denied\n",
		"neighbours 5 requests of all others, 1 denied\n"} {
		run.Neighbours.Denied = int64(denied)
		d := &Document{Kind: LoadTest, Runs: []Run{run}}
		got := Printed(Answer{d}, 120)
		if !strings.Contains(got, line) || strings.Contains(got, alarm) != (denied > 0) {
			t.Errorf("%d denied:\n%s", denied, got)
		}
	}
}

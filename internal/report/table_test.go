package report

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/limitctl/limitctl/pkg/loadgen"
)

// The end of a run is the answer, the evidence, the thresholds and the doubts, in twelve lines. All of it is for -v.
func TestTheEndOfARun(t *testing.T) {
	short, verbose := Printed(Answer{Report: racing()}, 80), Printed(Answer{Report: racing(), Verbose: true}, 0)
	for text, wanted := range map[string][]string{
		short: {
			"FAIL     admitted 10 units too many", "limit    token-bucket 100/10s (naive)", "load ",
			"answers ",
			"fast ", "LIMIT", "hourly sliding-log:1000/1h (shadow)",
			"! interrupted: these are the results up to then\n",
			"more notes; -v has them\nmore     -v: everything · --html FILE: a page with charts\n",
		},
		verbose: {
			"FAIL ", "answers ", ", 12 perhaps charged all the same; 1,203 dropped\n", "keys ",
			"right    worst window 1.31 × ██████████|████; 10 units over, 0 under\n",
			"TIME ", "MOST DENIED", "user:1 ",
			"! the load generator was the limit",
			"✗ 300 × redis://localhost:6379 did not answer within 2s",
			"! the server's clock stepped back by 3 ms",
		},
	} {
		at := -1
		for _, want := range wanted {
			next := strings.Index(text, want)
			if next <= at {
				t.Errorf("%q is missing, or too early, in\n%s", want, text)
			}
			at = next
		}
	}
	for name, d := range Fixtures() {
		for _, width := range []int{80, 120} {
			text, tables := Printed(Answer{Report: d}, width), 0
			if len(d.Runs) > 0 && (len(d.Runs) > 1 || len(d.Runs[0].Limits) > 1) {
				tables = len(d.Runs) + len(d.Runs[0].Limits)*(2-min(len(d.Runs), 2)) + 3
			}
			missed := strings.Count(text, "was missed")
			if lines := strings.Count(text, "\n"); lines > mostLines+tables+missed && name != "hostile" {
				t.Errorf("%s: %d lines at %d columns:\n%s", name, lines, width, text)
			}
			if strings.HasPrefix(text, "PASS") && strings.Contains(text, "✗") {
				t.Errorf("%s passes with a ✗:\n%s", name, text)
			}
		}
	}
}

// Several runs are one table, which does without what matters least on a narrow terminal.
func TestComparisonOfRuns(t *testing.T) {
	for width, wanted := range map[int][]string{
		120: {"LIMIT", "REQUESTS", "UNDER", "p50", "p99", "THROUGHPUT", "fixed-window",
			"fixed-window 100/10s       29,912      35%  1.97 ×", "✗ leaky-bucket 100/10s: p99<5ms was missed: 666.6",
			"\n! leaky-bucket 100/10s: 900 requests answered more than 100ms late (3.0%)\n"},
		40: {"LIMIT", "ALLOWED", "WORST", "OVER", "1.97 ×"},
	} {
		text := Printed(Answer{Report: fiveRuns()}, width)
		for _, want := range wanted {
			if !strings.Contains(text, want) {
				t.Errorf("%q is missing in\n%s", want, text)
			}
		}
	}
}

// A simulation says first who would have been denied, and has no latencies, on the terminal as in CSV.
func TestSimulationsAreAboutWhoIsDenied(t *testing.T) {
	const both = "PASS     11 to 31 of 1,753 callers would have been denied (144 to 372 of 11,054 requests)\n"
	d := simulated()
	d.Thresholds[0].OK, d.Thresholds[1].OK = true, true
	if text := Printed(Answer{Report: d}, 120); !strings.HasPrefix(text, both) {
		t.Errorf("no %q in\n%s", both, text)
	}
	d.Runs, d.Thresholds = d.Runs[:1], nil
	text, csv := Printed(Answer{Report: d}, 80), fmt.Sprint(Answer{Report: d}.Records())
	if !strings.HasPrefix(text, "31 of 1,753 callers would have been denied (") || strings.Contains(text, "fast") ||
		strings.Contains(text, "worst") || !strings.Contains(text, "\n\nMOST DENIED ") ||
		strings.Contains(text, "203.0.113.14") || !strings.Contains(csv, " 1753 31 ") {
		t.Errorf("%s\n%s", text, csv)
	}
}

// The times of each outcome are shown where both occurred.
func TestTimesOfOutcomes(t *testing.T) {
	d := oneRun()
	for denied, want := range map[*loadgen.Quantiles]bool{nil: false, {P50: 1_230_000}: true} {
		d.Runs[0].AllowedService, d.Runs[0].DeniedService = &loadgen.Quantiles{P50: 77_000}, denied
		for form, text := range map[string]string{"-v": Printed(Answer{Report: d, Verbose: true}, 100),
			"page": string(pageOf(t, d))} {
			if strings.Contains(text, "77 ms") != want || strings.Contains(text, "1.23 s") != want {
				t.Errorf("%s, denied %+v:\n%s", form, denied, text)
			}
		}
	}
}

// The warm-up, of which nothing is counted, is no outage.
func TestTheWarmUpIsDrawn(t *testing.T) {
	d := oneRun()
	r := &d.Runs[0]
	r.WarmupMS, r.IntervalMS = 2000, 1000
	r.Timeline = []loadgen.Interval{{}, {OffsetMS: 1000}, {OffsetMS: 2000}, {OffsetMS: 3000, Allowed: 5}}
	p := newPage(d)
	if chart := p.Runs[0].OverTime; !slices.Equal(p.Outcomes, []string{"allowed", warmUp}) ||
		chart.Shapes[0] != (shape{warmUp, "M0 0H250V1000H0zM250 0H500V1000H250z"}) {
		t.Errorf("%v, %+v", p.Outcomes, chart)
	}
	r.WarmupMS = 0
	if slices.Contains(newPage(d).Outcomes, warmUp) {
		t.Error("it is drawn without a warm-up")
	}
}

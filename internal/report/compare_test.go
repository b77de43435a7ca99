package report

import (
	"slices"
	"testing"
)

// comparing returns the verdicts, by metric, on what change makes of a run, as compared with runs that differ by 10 %
// in throughput if there are several.
func comparing(t *testing.T, bases int, margin float64, change func(*Run)) (map[string]Verdict, *Comparison) {
	t.Helper()
	named := func(name string, change func(*Run)) Named {
		d := New(LoadTest)
		d.Runs = []Run{oneRun().Runs[0]}
		change(&d.Runs[0])
		return Named{Name: name, Document: d}
	}
	var all []Named
	for i := range bases {
		all = append(all, named("base.json", func(r *Run) { r.ThroughputPerS *= 1 - 0.1*float64(i) }))
	}
	c, err := Compare(all, named("new.json", change), margin)
	if err != nil {
		t.Fatal(err)
	}
	verdicts := map[string]Verdict{}
	for _, d := range c.Runs[0].Differences {
		if d.Metric == "throughput" && !slices.ContainsFunc(all, func(base Named) bool {
			return base.Runs[0].ThroughputPerS == d.Base
		}) {
			t.Errorf("no base has a throughput of %v", d.Base)
		}
		if d.Verdict != Same {
			verdicts[d.Metric] = d.Verdict
		}
	}
	return verdicts, c
}

func TestWhatIsARegression(t *testing.T) {
	const quarter = 0.25
	for _, test := range []struct {
		name, metric string
		want         Verdict
		bases        int
		margin       float64
		change       func(*Run)
	}{
		{"p99 by 24 %", "p99_us", Same, 1, quarter, func(r *Run) { r.Latency.P99 = r.Latency.P99 * 124 / 100 }},
		{"p99 by 26 %", "p99_us", Worse, 1, quarter, func(r *Run) { r.Latency.P99 = r.Latency.P99 * 126 / 100 }},
		{"p99 a third less", "p99_us", Better, 1, quarter, func(r *Run) { r.Latency.P99 = r.Latency.P99 * 2 / 3 }},
		{"throughput by 24 %", "throughput", Same, 1, quarter, func(r *Run) { r.ThroughputPerS *= 0.76 }},
		{"throughput by 26 %", "throughput", Worse, 1, quarter, func(r *Run) { r.ThroughputPerS *= 0.74 }},
		{"within two bases", "throughput", Same, 2, 0, func(r *Run) { r.ThroughputPerS *= 0.91 }},
		{"below two bases", "throughput", Worse, 2, 0, func(r *Run) { r.ThroughputPerS *= 0.85 }},
		{"below them by the margin", "throughput", Same, 2, quarter, func(r *Run) { r.ThroughputPerS *= 0.7 }},
		{"no margin", "throughput", Worse, 1, 0, func(r *Run) { r.ThroughputPerS *= 0.999 }},
		{"one unit over", "over_admitted", Worse, 1, quarter, func(r *Run) { r.Audit.OverAdmitted++ }},
		{"one unit under", "under_admitted", Worse, 1, quarter, func(r *Run) { r.Audit.UnderAdmitted++ }},
		{"worst window just above 1", "worst_window_ratio", Worse, 1, quarter,
			func(r *Run) { r.Audit.WorstRatio = 1.0001 }},
		{"worst window below 1", "worst_window_ratio", Same, 1, quarter, func(r *Run) { r.Audit.WorstRatio = 0.4 }},
		{"any error", "errors_percent", Worse, 1, quarter, func(r *Run) { r.Errors++ }},
		{"less fair", "fairness", Worse, 1, quarter, func(r *Run) { r.Audit.Fairness = 0.6 }},
		{"a generator at its limit", "p99_us", Same, 1, quarter,
			func(r *Run) { r.Latency.P99, r.GeneratorLimited = 2*r.Latency.P99, true }},
		{"an audit beside such a generator", "over_admitted", Worse, 1, quarter,
			func(r *Run) { r.Audit.OverAdmitted, r.GeneratorLimited = 1, true }},
	} {
		verdicts, c := comparing(t, test.bases, test.margin, test.change)
		got, differs := verdicts[test.metric]
		if !differs {
			got = Same
		}
		if got != test.want || len(verdicts) > 1 || (c.Regressions == 1) != (test.want == Worse) ||
			(c.Verdict == Fail) != (test.want == Worse) {
			t.Errorf("%s: %v with %d regressions, want %s", test.name, verdicts, c.Regressions, test.want)
		}
	}
}

// Runs are matched by what they are of, in whatever order, and what has no match is said.
func TestComparedRunsAreOfTheSameLimit(t *testing.T) {
	compare := func(base, latest *Document) (*Comparison, error) {
		return Compare([]Named{{"base.json", base}}, Named{"new.json", latest}, 0.25)
	}
	latest, twice := fiveRuns(), fiveRuns()
	latest.Runs[0], latest.Runs[3] = latest.Runs[3], latest.Runs[0]
	latest.Runs = latest.Runs[:4]
	latest.Runs[1].Algorithm, latest.Runs[1].Limit = "token-bucket", "5/1s"
	c, err := compare(fiveRuns(), latest)
	if err != nil || c.Regressions != 0 || len(c.Runs) != 3 || c.Runs[0].Run != "sliding-log 100/10s" ||
		!slices.Equal(c.Warnings, []string{"token-bucket 5/1s is in new.json and not in base.json"}) {
		t.Errorf("%+v, %v", c, err)
	}
	twice.Runs[1] = twice.Runs[0]
	twice.Runs[1].Audit.OverAdmitted = 1
	if c, err = compare(twice, twice); err != nil || c.Regressions != 0 {
		t.Errorf("runs of one limit: %+v, %v", c, err)
	}
}

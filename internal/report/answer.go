package report

import (
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/pkg/loadgen"
)

// Answer shows the result of a load test or a simulation. People see the end of it in a dozen lines, or all of it if
// Verbose.
type Answer struct {
	Report  *Document
	Verbose bool
}

// Document implements [output.Answer]. No list in it is null.
func (a Answer) Document() any {
	d := a.Report
	d.Judge()
	printed := *d
	printed.Runs = make([]Run, len(d.Runs))
	for i, run := range d.Runs {
		run.Limits = append([]loadgen.Limit{}, run.Limits...)
		run.Timeline = append([]loadgen.Interval{}, run.Timeline...)
		run.MostDenied = append([]KeyCount{}, run.MostDenied...)
		printed.Runs[i] = run
	}
	return &printed
}

// Items implements [output.Answer]: a line for each run.
func (a Answer) Items() any { return a.Document().(*Document).Runs }

// Records implements [output.Answer]: a row for each run, with its audit, the quantiles of its latency.
func (a Answer) Records() [][]string {
	type row struct {
		*Run
		*loadgen.Audit
		Mean *int64 `json:"latency_mean_us"`
		P50  *int64 `json:"latency_p50_us"`
		P95  *int64 `json:"latency_p95_us"`
		P99  *int64 `json:"latency_p99_us"`
		Max  *int64 `json:"latency_max_us"`
	}
	rows := make([]row, len(a.Report.Runs))
	for i := range rows {
		r := &a.Report.Runs[i]
		rows[i] = row{Run: r, Audit: &r.Audit}
		if q := r.Latency; q != nil {
			rows[i].Mean, rows[i].P50, rows[i].P95, rows[i].P99, rows[i].Max = &q.Mean, &q.P50, &q.P95, &q.P99, &q.Max
		}
	}
	return output.Rows(rows)
}

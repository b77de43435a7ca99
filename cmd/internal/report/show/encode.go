// Package show makes of a report what people and programs read: the text of a terminal, an HTML
// page, CSV, and summaries in Markdown and JUnit XML.
package show

import (
	"slices"
	"strconv"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/report"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Answer shows the result of a load test or a simulation.
type Answer struct{ Report *report.Document }

// Document implements [output.Answer]. It has neither histograms nor answers, which only saved
// documents have, and no list in it is null.
func (a Answer) Document() any {
	d := a.Report
	d.Judge()
	printed := *d
	printed.Answers = nil
	printed.Runs = make([]report.Run, len(d.Runs))
	for i, run := range d.Runs {
		run.Histograms = nil
		run.Limits = append([]report.Limit{}, run.Limits...)
		run.Timeline = append([]report.Interval{}, run.Timeline...)
		run.Heat = append([]report.HeatGroup{}, run.Heat...)
		run.MostDenied = append([]report.KeyCount{}, run.MostDenied...)
		printed.Runs[i] = run
	}
	return &printed
}

// Lines implements [output.Answer]: a line for each run.
func (a Answer) Lines() []any {
	lines := []any{}
	for _, run := range a.Document().(*report.Document).Runs {
		lines = append(lines, run)
	}
	return lines
}

// Records implements [output.Answer]: a row for each run. What a run does not have is an
// empty cell.
func (a Answer) Records() [][]string {
	d := a.Report
	header := []string{
		"algorithm", "limit", "policy", "implementation", "store", "load", "scenario", "workers", "rate",
		"started_at",
		"requests", "allowed", "denied", "errors", "unknown", "dropped", "late",
		"keys", "keys_denied", "duration_ms", "throughput_per_s", "generator_limited",
		"worst_window_ratio", "worst_window_units", "over_admitted", "under_admitted",
		"longest_denial_run", "fairness",
	}
	for _, times := range []string{"latency", "service", "schedule_lag"} {
		for _, quantile := range []string{"p50", "p90", "p99", "p999", "max"} {
			header = append(header, times+"_"+quantile+"_us")
		}
	}
	for _, cost := range report.Costs {
		header = append(header, cost.Name)
	}
	header = append(header, "local", "unguarded")
	for _, kind := range []string{"error", "local", "unguarded"} {
		for _, quantile := range []string{"p50", "p90", "p99", "p999", "max"} {
			header = append(header, kind+"_latency_"+quantile+"_us")
		}
	}
	// Columns that came later are at the end, for programs that go by the place.
	header = append(header, "least_over_admitted", "least_under_admitted", "lies", "limit_reached", "server", "seed")
	for _, kind := range []string{"latency", "service", "schedule_lag", "error_latency", "local_latency", "unguarded_latency"} {
		for _, figure := range laterFigures {
			header = append(header, kind+"_"+figure+"_us")
		}
	}
	records := [][]string{header}
	for i := range d.Runs {
		records = append(records, recordOf(&d.Runs[i]))
	}
	return records
}

func recordOf(r *report.Run) []string {
	a := &r.Audit
	fairness := float(a.Fairness)
	if a.FairnessUnknown {
		fairness = ""
	}
	seed := ""
	if r.Seed != nil {
		seed = strconv.FormatUint(*r.Seed, 10)
	}
	lies, reached := "", ""
	if a.Lies != nil {
		lies = whole(a.Lies.Wrong)
	}
	if a.LimitReached != nil {
		reached = float(*a.LimitReached)
	}
	row := []string{
		r.Algorithm, r.Limit, r.Policy, r.Implementation, r.Store, r.Load, r.Scenario, strconv.Itoa(r.Workers), float(r.Rate),
		r.StartedAt.Format(time.RFC3339Nano),
		whole(r.Requests), whole(r.Allowed), whole(r.Denied), whole(r.Errors), whole(r.Unknown), whole(r.Dropped), whole(r.Late),
		whole(r.Keys), whole(r.KeysDenied), whole(r.DurationMS), float(r.ThroughputPerS), strconv.FormatBool(r.GeneratorLimited),
		float(a.WorstWindowRatio), whole(a.WorstWindowUnits), whole(a.OverAdmitted), whole(a.UnderAdmitted),
		whole(a.LongestDenialRun), fairness,
	}
	for _, q := range []*report.Quantiles{r.Latency, r.Service, r.Lag} {
		row = append(row, quantileCells(q)...)
	}
	for _, cost := range report.Costs {
		figure := ""
		if r.Cost != nil && cost.Of(r.Cost) != nil {
			figure = float(*cost.Of(r.Cost))
		}
		row = append(row, figure)
	}
	row = append(row, whole(r.Local), whole(r.Unguarded))
	for _, q := range []*report.Quantiles{r.ErrorLatency, r.LatencyBy(store.DecidedByLocal), r.LatencyBy(store.DecidedByFailurePolicy)} {
		row = append(row, quantileCells(q)...)
	}
	row = append(row, whole(a.LeastOverAdmitted), whole(a.LeastUnderAdmitted), lies, reached, r.Server, seed)
	for _, q := range []*report.Quantiles{
		r.Latency, r.Service, r.Lag, r.ErrorLatency, r.LatencyBy(store.DecidedByLocal), r.LatencyBy(store.DecidedByFailurePolicy),
	} {
		row = append(row, laterCells(q)...)
	}
	return row
}

// laterFigures are the figures of times whose columns came later.
var laterFigures = []string{"mean", "p95", "p9999"}

func laterCells(q *report.Quantiles) []string {
	var row []string
	for _, figure := range report.TimeFigures() {
		if !slices.Contains(laterFigures, figure.Name) {
			continue
		}
		text := ""
		if us, known := figure.Known(q); known {
			text = whole(us)
		}
		row = append(row, text)
	}
	return row
}

func quantileCells(q *report.Quantiles) []string {
	if q == nil {
		return make([]string, 5)
	}
	return []string{whole(q.P50), whole(q.P90), whole(q.P99), whole(q.P999), whole(q.Max)}
}

func whole(n int64) string { return strconv.FormatInt(n, 10) }

func float(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

package report

import (
	"strconv"
	"time"

	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/pkg/loadgen"
)

// Answer shows the result of a load test or a simulation. People see the end of it in a dozen lines, or all of it if
// Verbose.
type Answer struct {
	Report  *Document
	Verbose bool
}

// Document implements [output.Answer]. It has no histograms, which only saved
// documents have, and no list in it is null.
func (a Answer) Document() any {
	d := a.Report
	d.Judge()
	printed := *d
	printed.Runs = make([]Run, len(d.Runs))
	for i, run := range d.Runs {
		run.Histograms = nil
		run.Limits = append([]loadgen.Limit{}, run.Limits...)
		run.Timeline = append([]loadgen.Interval{}, run.Timeline...)
		run.MostDenied = append([]KeyCount{}, run.MostDenied...)
		printed.Runs[i] = run
	}
	return &printed
}

// Lines implements [output.Answer]: a line for each run.
func (a Answer) Lines() []any { return output.Lines(a.Document().(*Document).Runs) }

// Records implements [output.Answer]: a row for each run. What a run does not have is an
// empty cell.
func (a Answer) Records() [][]string {
	records := make([][]string, 1+len(a.Report.Runs))
	text := func(name string, of func(*Run) string) {
		records[0] = append(records[0], name)
		for i := range a.Report.Runs {
			records[1+i] = append(records[1+i], of(&a.Report.Runs[i]))
		}
	}
	metric := func(column, name string) {
		text(column, func(r *Run) string {
			value, known := metricNamed(name).of(r)
			if !known {
				return ""
			}
			return float(value)
		})
	}
	metrics := func(names ...string) {
		for _, name := range names {
			metric(name, name)
		}
	}
	text("algorithm", func(r *Run) string { return r.Algorithm })
	text("limit", func(r *Run) string { return r.Limit })
	text("policy", func(r *Run) string { return r.Policy })
	text("implementation", func(r *Run) string { return r.Implementation })
	text("store", func(r *Run) string { return r.Store })
	text("load", func(r *Run) string { return r.Load })
	text("scenario", func(r *Run) string { return r.Scenario })
	text("workers", func(r *Run) string { return strconv.Itoa(r.Workers) })
	text("rate", func(r *Run) string { return float(r.Rate) })
	text("started_at", func(r *Run) string { return r.StartedAt.Format(time.RFC3339Nano) })
	metrics("requests", "allowed", "denied", "errors", "unknown", "dropped", "late", "keys")
	metric("keys_denied", "denied_keys")
	text("duration_ms", func(r *Run) string { return float(float64(r.DurationMS)) })
	metric("throughput_per_s", "throughput")
	text("generator_limited", func(r *Run) string { return strconv.FormatBool(r.GeneratorLimited) })
	metrics("worst_window_ratio", "worst_window_units", "over_admitted", "under_admitted", "least_over_admitted",
		"least_under_admitted", "lies", "limit_reached", "longest_denial_run", "fairness")
	for _, times := range distributions {
		for _, figure := range timeFigures {
			metric(times.column+"_"+figure.name+"_us", times.prefix+figure.name)
		}
	}
	for _, cost := range costs {
		metrics(cost.name)
	}
	text("server", func(r *Run) string { return r.Server })
	text("seed", func(r *Run) string {
		if r.Seed == nil {
			return ""
		}
		return strconv.FormatUint(*r.Seed, 10)
	})
	return records
}

func float(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

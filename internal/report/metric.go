package report

import (
	"slices"
	"sync"

	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/pkg/loadgen"
)

// unit is how a metric's values are written.
type unit int

const (
	number    unit = iota // a decimal
	ratio                 // a decimal, of the limit
	perSecond             // a decimal
	count                 // a whole number
	duration              // µs
)

// metric is one figure of a run: it can be promised and compared, and tables and CSV show it.
type metric struct {
	name string
	unit unit
	// of returns the figure, if the run has it.
	of func(*Run) (value float64, known bool)
	// whole is what a percentage of the figure is of; nil if it is of nothing.
	whole func(*Run) int64
	// ofMachine: a load generator that was the limit decides the figure, so that no promise of it is judged then.
	ofMachine bool
	// times is the distribution that a duration is of, and service, where a load generator makes the duration longer
	// by its delay, what is not delay. Both are nil for others.
	times   *distribution
	service func(*Run) (value float64, known bool)
}

// timeFigure is a quantile of times, their mean or their maximum.
type timeFigure struct {
	name, title string // as in JSON and in thresholds, and as in tables, which have none without a title
	drops       int    // which of a table's columns go first where it is narrow
	of          func(*loadgen.Quantiles) int64
}

// timeFigures are all figures of a distribution of times, in the order of tables.
var timeFigures = []timeFigure{
	{"mean", "mean", 2, func(q *loadgen.Quantiles) int64 { return q.Mean }},
	{"p50", "p50", 0, func(q *loadgen.Quantiles) int64 { return q.P50 }},
	{"p90", "p90", 4, func(q *loadgen.Quantiles) int64 { return q.P90 }},
	{"p95", "p95", 1, func(q *loadgen.Quantiles) int64 { return q.P95 }},
	{"p99", "p99", 0, func(q *loadgen.Quantiles) int64 { return q.P99 }},
	{"p999", "p99.9", 3, func(q *loadgen.Quantiles) int64 { return q.P999 }},
	{"p9999", "", 0, func(q *loadgen.Quantiles) int64 { return q.P9999 }},
	{"max", "max", 0, func(q *loadgen.Quantiles) int64 { return q.Max }},
}

// distribution is the times of some requests of a run.
type distribution struct {
	name, prefix string // in tables and in metrics
	of, service  func(*Run) *loadgen.Quantiles
	// optional: a run may well have no such request, and then keeps what is promised of their times at most.
	optional bool
}

// Tables show them without those that failed.
var distributions = func() []*distribution {
	service := func(r *Run) *loadgen.Quantiles { return r.Service }
	allowed := func(r *Run) *loadgen.Quantiles { return r.AllowedService }
	denied := func(r *Run) *loadgen.Quantiles { return r.DeniedService }
	return []*distribution{
		{"latency", "", func(r *Run) *loadgen.Quantiles { return r.Latency }, service, false},
		{"service", "service_", service, service, false},
		{"lag", "lag_", func(r *Run) *loadgen.Quantiles { return r.Lag }, nil, false},
		{"allowed", "allowed_", allowed, allowed, true},
		{"denied", "denied_", denied, denied, true},
		{"failed", "error_", func(r *Run) *loadgen.Quantiles { return r.ErrorLatency }, nil, true},
	}
}()

// metrics is all that can be promised.
var metrics = sync.OnceValue(func() (all []metric) {
	for _, times := range distributions {
		for _, figure := range timeFigures {
			in := func(of func(*Run) *loadgen.Quantiles) func(*Run) (float64, bool) {
				if of == nil {
					return nil
				}
				return func(r *Run) (us float64, known bool) {
					if q := of(r); q != nil {
						return float64(figure.of(q)), true
					}
					return 0, false
				}
			}
			all = append(all, metric{name: times.prefix + figure.name, unit: duration, ofMachine: true,
				of: in(times.of), service: in(times.service), times: times})
		}
	}
	counted := func(name string, of, whole func(*Run) int64) {
		all = append(all, metric{name: name, unit: count, whole: whole, ofMachine: name == "late",
			of: func(r *Run) (float64, bool) { return float64(of(r)), true }})
	}
	requests, keys := func(r *Run) int64 { return r.Requests }, func(r *Run) int64 { return r.Keys }
	counted("requests", requests, nil)
	counted("allowed", func(r *Run) int64 { return r.Allowed }, requests)
	counted("denied", func(r *Run) int64 { return r.Denied }, requests)
	counted("errors", func(r *Run) int64 { return r.Errors }, requests)
	counted("timed_out", func(r *Run) int64 { return r.TimedOut }, requests)
	counted("unknown", func(r *Run) int64 { return r.Unknown }, requests)
	counted("late", func(r *Run) int64 { return r.Late + r.TimedOut }, requests)
	counted("dropped", func(r *Run) int64 { return r.Dropped }, (*Run).Planned)
	counted("keys", keys, nil)
	counted("denied_keys", func(r *Run) int64 { return r.KeysDenied }, keys)
	counted("over_admitted", func(r *Run) int64 { return r.Audit.OverAdmitted }, nil)
	counted("under_admitted", func(r *Run) int64 { return r.Audit.UnderAdmitted }, nil)
	figure := func(name string, unit unit, of func(*Run) (float64, bool)) {
		all = append(all, metric{name: name, unit: unit, of: of, ofMachine: unit == perSecond})
	}
	figure("worst_window_ratio", ratio, func(r *Run) (float64, bool) { return r.Audit.WorstRatio, true })
	figure("throughput", perSecond, func(r *Run) (float64, bool) { return r.ThroughputPerS, true })
	figure("rate", perSecond, func(r *Run) (float64, bool) {
		return 1000 * float64(r.Requests) / float64(max(r.CountedMS(), 1)), true
	})
	figure("fairness", number, func(r *Run) (float64, bool) { return r.Audit.Fairness, true })
	figure("lies", count, func(r *Run) (float64, bool) {
		if r.Audit.Lies == nil {
			return 0, false
		}
		return float64(r.Audit.Lies.Wrong), true
	})
	return all
})

// shown writes the metric of a run that has that name, or a dash if it is not known.
func (r *Run) shown(name string) string {
	m := metricNamed(name)
	if value, known := m.of(r); known {
		return m.write(value)
	}
	return "-"
}

// write writes a value for people.
func (m *metric) write(value float64) string {
	switch m.unit {
	case duration:
		return output.Micros(int64(value))
	case count:
		return output.Thousands(int64(value))
	case ratio:
		return output.Ratio(value)
	case perSecond:
		return output.PerSecond(value)
	default:
		return output.Decimal(value)
	}
}

func metricNamed(name string) *metric {
	all := metrics()
	if i := slices.IndexFunc(all, func(m metric) bool { return m.name == name }); i >= 0 {
		return &all[i]
	}
	return nil
}

// valueHint says how the metric's values are written.
func (m *metric) valueHint() string {
	switch {
	case m.unit == duration:
		return "a time in us, ms or s, such as 5ms"
	case m.whole != nil:
		return "a whole number such as 100, or a percentage such as 1%"
	case m.unit == count:
		return "a whole number such as 100"
	}
	return "a number such as 1.5"
}

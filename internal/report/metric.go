package report

import (
	"math"
	"slices"
	"sync"

	"github.com/limitctl/limitctl/pkg/loadgen"
)

// metricKind is how a metric's values are written.
type metricKind int

const (
	number   metricKind = iota // a decimal
	count                      // a whole number
	duration                   // a decimal and a unit of time
)

// metric is one figure of a run that can be promised.
type metric struct {
	name string
	kind metricKind
	// of returns the figure, of a duration in µs, if the run has it.
	of func(*Run) (value float64, known bool)
	// optional: a run may well have nothing that the figure is of, and then keeps what is
	// promised of it at most.
	optional bool
	// whole is what a percentage of the figure is of; nil if it is of nothing.
	whole func(*Run) int64
	// service returns, of a time that a load generator makes longer by its delay, what is not delay; nil if there is no
	// such part.
	service func(*Run) (value float64, known bool)
	// withDelay: the figure is a time from the instant that was planned.
	withDelay bool
	// ofMachine: a load generator that was the limit decides the figure, so that no promise of it is judged then.
	ofMachine bool
}

// timeFigure is a quantile of times, their mean or their maximum.
type timeFigure struct {
	name, title string // as in JSON and in thresholds, and as in tables
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
	{"p9999", "p99.99", 5, func(q *loadgen.Quantiles) int64 { return q.P9999 }},
	{"max", "max", 0, func(q *loadgen.Quantiles) int64 { return q.Max }},
}

// distributions are the times of a run: their rows in tables, the columns of their figures in CSV, and their metrics.
var distributions = []struct {
	name, column, prefix string
	of                   func(*Run) *loadgen.Quantiles
}{
	{"latency", "latency", "", func(r *Run) *loadgen.Quantiles { return r.Latency }},
	{"service", "service", "service_", func(r *Run) *loadgen.Quantiles { return r.Service }},
	{"lag", "schedule_lag", "lag_", func(r *Run) *loadgen.Quantiles { return r.Lag }},
	{"failed", "error_latency", "error_", func(r *Run) *loadgen.Quantiles { return r.ErrorLatency }},
	{"allowed", "allowed_service", "allowed_", func(r *Run) *loadgen.Quantiles { return r.AllowedService }},
	{"denied", "denied_service", "denied_", func(r *Run) *loadgen.Quantiles { return r.DeniedService }},
}

// metrics is all that can be promised.
var metrics = sync.OnceValue(func() (all []metric) {
	for _, times := range distributions {
		for _, figure := range timeFigures {
			in := func(of func(*Run) *loadgen.Quantiles) func(*Run) (float64, bool) {
				return func(r *Run) (us float64, known bool) {
					if q := of(r); q != nil {
						return float64(figure.of(q)), true
					}
					return 0, false
				}
			}
			m := metric{name: times.prefix + figure.name, kind: duration, ofMachine: true, of: in(times.of),
				withDelay: times.prefix == "", optional: slices.Contains([]string{"error_", "allowed_", "denied_"},
					times.prefix)}
			switch times.prefix {
			case "", "service_":
				m.service = in(func(r *Run) *loadgen.Quantiles { return r.Service })
			case "allowed_", "denied_":
				m.service = m.of
			}
			all = append(all, m)
		}
	}
	counted := func(name string, of, whole func(*Run) int64) {
		all = append(all, metric{name: name, kind: count, whole: whole, ofMachine: name == "late",
			of: func(r *Run) (float64, bool) { return float64(of(r)), true }})
	}
	requests, keys := func(r *Run) int64 { return r.Requests }, func(r *Run) int64 { return r.Keys }
	counted("requests", requests, nil)
	counted("allowed", func(r *Run) int64 { return r.Allowed }, requests)
	counted("denied", func(r *Run) int64 { return r.Denied }, requests)
	counted("errors", func(r *Run) int64 { return r.Errors }, requests)
	counted("timed_out", func(r *Run) int64 { return r.TimedOut }, requests)
	counted("unknown", func(r *Run) int64 { return r.Unknown }, requests)
	counted("late", func(r *Run) int64 { return r.Late }, requests)
	counted("dropped", func(r *Run) int64 { return r.Dropped }, (*Run).Planned)
	counted("keys", keys, nil)
	counted("denied_keys", func(r *Run) int64 { return r.KeysDenied }, keys)
	counted("over_admitted", func(r *Run) int64 { return r.Audit.OverAdmitted }, nil)
	counted("under_admitted", func(r *Run) int64 { return r.Audit.UnderAdmitted }, nil)
	counted("least_over_admitted", func(r *Run) int64 { return r.Audit.LeastOver }, nil)
	counted("least_under_admitted", func(r *Run) int64 { return r.Audit.LeastUnder }, nil)
	counted("longest_denial_run", func(r *Run) int64 { return r.Audit.LongestDenialRun }, nil)
	counted("worst_window_units", func(r *Run) int64 { return r.Audit.WorstUnits }, nil)
	figure := func(name string, of func(*Run) (float64, bool)) {
		all = append(all, metric{name: name, of: of, ofMachine: name == "throughput" || name == "rate"})
	}
	figure("worst_window_ratio", func(r *Run) (float64, bool) { return r.Audit.WorstRatio, true })
	figure("throughput", func(r *Run) (float64, bool) { return r.ThroughputPerS, true })
	figure("fairness", func(r *Run) (float64, bool) { return r.Audit.Fairness, true })
	figure("limit_reached", func(r *Run) (float64, bool) { return valueOf(r.Audit.LimitReached) })
	figure("rate", func(r *Run) (float64, bool) {
		return 1000 * float64(r.Requests) / float64(max(r.CountedMS(), 1)), true
	})
	figure("clock_drift", func(r *Run) (float64, bool) {
		if r.Clock == nil || r.Clock.Held == 0 {
			return 0, false
		}
		return math.Abs(r.Clock.Drift), true
	})
	all = append(all, metric{name: "lies", kind: count, of: func(r *Run) (float64, bool) {
		if r.Audit.Lies == nil {
			return 0, false
		}
		return float64(r.Audit.Lies.Wrong), true
	}})
	for _, cost := range Costs {
		figure(cost.Name, func(r *Run) (float64, bool) {
			if r.Cost == nil {
				return 0, false
			}
			return valueOf(cost.Of(r.Cost))
		})
	}
	return all
})

func valueOf(f *float64) (value float64, known bool) {
	if f == nil {
		return 0, false
	}
	return *f, true
}

// Costs are the figures of a Cost, by the names that they have in JSON.
var Costs = []struct {
	Name  string
	Unit  string // of the figure
	Words string // what the figure is of, after it
	Of    func(*Cost) *float64
}{
	{"server_cpu_us", "µs", "of the server", func(c *Cost) *float64 { return c.ServerCPU }},
	{"client_cpu_us", "µs", "of the client", func(c *Cost) *float64 { return c.ClientCPU }},
	{"round_trips", "", "round trips", func(c *Cost) *float64 { return c.RoundTrips }},
	{"commands", "", "commands", func(c *Cost) *float64 { return c.Commands }},
	{"network_in_bytes", "B", "to the server", func(c *Cost) *float64 { return c.NetworkIn }},
	{"network_out_bytes", "B", "from it", func(c *Cost) *float64 { return c.NetworkOut }},
	{"bytes_per_key", "B", "of memory per key", func(c *Cost) *float64 { return c.BytesPerKey }},
	{"bytes_per_unit", "B", "per logged unit", func(c *Cost) *float64 { return c.BytesPerUnit }},
}

// Value returns the figure that has a name in thresholds, of a duration in µs, if the run has it.
func (r *Run) Value(name string) (value float64, known bool) { return metricNamed(name).of(r) }

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
	case m.kind == duration:
		return "a time in us, ms or s, such as 5ms"
	case m.whole != nil:
		return "a whole number such as 100, or a percentage such as 1%"
	case m.kind == count:
		return "a whole number such as 100"
	}
	return "a number such as 1.5"
}

package report

import (
	"math"
	"math/big"
	"strings"
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
	// of returns the figure, of a duration in µs; nil if the run has none.
	of func(*Figures) *big.Rat
	// optional: a run may well have nothing that the figure is of, and then keeps what is
	// promised of it at most.
	optional bool
	// whole is what a percentage of the figure is of; nil if it is of nothing.
	whole func(*Figures) int64
	// ofMachine: a load generator that was the limit decides the figure, so that no promise of it is judged then.
	ofMachine bool
}

// metrics is all that can be promised, in the order in which it is listed.
var metrics = allMetrics()

func allMetrics() []metric {
	var all []metric
	for _, times := range []struct {
		prefix   string
		optional bool
		of       func(*Figures) *Quantiles
	}{
		{"", false, func(f *Figures) *Quantiles { return f.Latency }},
		{"service_", false, func(f *Figures) *Quantiles { return f.Service }},
		{"allowed_", true, func(f *Figures) *Quantiles { return f.AllowedService }},
		{"denied_", true, func(f *Figures) *Quantiles { return f.DeniedService }},
		{"lag_", false, func(f *Figures) *Quantiles { return f.Lag }},
		{"error_", true, func(f *Figures) *Quantiles { return f.ErrorLatency }},
	} {
		for _, figure := range timeFigures() {
			all = append(all, metric{name: times.prefix + figure.Name, kind: duration, optional: times.optional, ofMachine: true,
				of: func(f *Figures) *big.Rat {
					if us, known := figure.Known(times.of(f)); known {
						return new(big.Rat).SetInt64(us)
					}
					return nil
				}})
		}
	}
	requests := func(f *Figures) int64 { return f.Requests }
	arrivals := func(f *Figures) int64 { return f.Requests + f.Dropped }
	keys := func(f *Figures) int64 { return f.Keys }
	for _, counted := range []struct {
		name  string
		of    func(*Figures) int64
		whole func(*Figures) int64
	}{
		{"requests", requests, nil},
		{"allowed", func(f *Figures) int64 { return f.Allowed }, requests},
		{"denied", func(f *Figures) int64 { return f.Denied }, requests},
		{"errors", func(f *Figures) int64 { return f.Errors }, requests},
		{"timed_out", func(f *Figures) int64 { return f.TimedOut }, requests},
		{"unknown", func(f *Figures) int64 { return f.Unknown }, requests},
		{"late", func(f *Figures) int64 { return f.Late }, requests},
		{"dropped", func(f *Figures) int64 { return f.Dropped }, arrivals},
		{"keys", keys, nil},
		{"denied_keys", func(f *Figures) int64 { return f.KeysDenied }, keys},
		{"over_admitted", func(f *Figures) int64 { return f.Audit.OverAdmitted }, nil},
		{"under_admitted", func(f *Figures) int64 { return f.Audit.UnderAdmitted }, nil},
		{"least_over_admitted", func(f *Figures) int64 { return f.Audit.LeastOver }, nil},
		{"least_under_admitted", func(f *Figures) int64 { return f.Audit.LeastUnder }, nil},
		{"longest_denial_run", func(f *Figures) int64 { return f.Audit.LongestDenialRun }, nil},
		{"worst_window_units", func(f *Figures) int64 { return f.Audit.WorstUnits }, nil},
	} {
		all = append(all, metric{name: counted.name, kind: count, whole: counted.whole, ofMachine: counted.name == "late",
			of: func(f *Figures) *big.Rat { return new(big.Rat).SetInt64(counted.of(f)) }})
	}
	for _, figure := range []struct {
		name string
		of   func(*Figures) float64
	}{
		{"worst_window_ratio", func(f *Figures) float64 { return f.Audit.WorstRatio }},
		{"throughput", func(f *Figures) float64 { return f.ThroughputPerS }},
	} {
		all = append(all, metric{name: figure.name, ofMachine: figure.name == "throughput", of: func(f *Figures) *big.Rat {
			return ratOf(figure.of(f))
		}})
	}
	all = append(all,
		metric{name: "lies", kind: count, of: func(f *Figures) *big.Rat {
			if f.Audit.Lies == nil {
				return nil
			}
			return new(big.Rat).SetInt64(f.Audit.Lies.Wrong)
		}},
		metric{name: "clock_drift", of: func(f *Figures) *big.Rat {
			if f.Clock == nil || f.Clock.Held == 0 {
				return nil
			}
			return ratOf(math.Abs(f.Clock.Drift))
		}},
		metric{name: "limit_reached", of: func(f *Figures) *big.Rat {
			if f.Audit.LimitReached == nil {
				return nil
			}
			return ratOf(*f.Audit.LimitReached)
		}},
		metric{name: "fairness", of: func(f *Figures) *big.Rat {
			return ratOf(f.Audit.Fairness)
		}},
		metric{name: "rate", ofMachine: true, of: func(f *Figures) *big.Rat {
			if f.CountedMS() <= 0 {
				return new(big.Rat)
			}
			return big.NewRat(1000*f.Requests, f.CountedMS())
		}})
	for _, cost := range Costs {
		all = append(all, metric{name: cost.Name, of: func(f *Figures) *big.Rat {
			if f.Cost == nil || cost.Of(f.Cost) == nil {
				return nil
			}
			return ratOf(*cost.Of(f.Cost))
		}})
	}
	return all
}

// Costs are the figures of a Cost, by the names that they have in JSON.
var Costs = []struct {
	Name  string
	Unit  string // of the figure
	Words string // what the figure is of, after it
	Title string
	Of    func(*Cost) *float64
}{
	{"server_cpu_us", "µs", "of the server", "Server CPU per decision, µs", func(c *Cost) *float64 { return c.ServerCPU }},
	{"client_cpu_us", "µs", "of the client", "Client CPU per decision, µs", func(c *Cost) *float64 { return c.ClientCPU }},
	{"round_trips", "", "round trips", "Round trips per decision", func(c *Cost) *float64 { return c.RoundTrips }},
	{"commands", "", "commands", "Server commands per decision", func(c *Cost) *float64 { return c.Commands }},
	{"network_in_bytes", "B", "to the server", "Bytes to the server per decision", func(c *Cost) *float64 { return c.NetworkIn }},
	{"network_out_bytes", "B", "from it", "Bytes from the server per decision", func(c *Cost) *float64 { return c.NetworkOut }},
	{"bytes_per_key", "B", "of memory per key", "Memory per key, bytes", func(c *Cost) *float64 { return c.BytesPerKey }},
	{"bytes_per_unit", "B", "per logged unit", "Memory per logged unit, bytes", func(c *Cost) *float64 { return c.BytesPerUnit }},
}

// Value returns the figure that has a name in thresholds, of a duration in µs, if the run has it.
func (f *Figures) Value(name string) (value float64, known bool) {
	if figure := metricNamed(name).of(f); figure != nil {
		value, _ = figure.Float64()
		return value, true
	}
	return 0, false
}

func metricNamed(name string) *metric {
	for i := range metrics {
		if metrics[i].name == name {
			return &metrics[i]
		}
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

// absence says why a run may have no such metric.
func (m *metric) absence() string {
	switch {
	case m.kind == duration:
		return "a simulation measures no times, and a load test has none before its first answer"
	case m.name == "limit_reached":
		return "no limit was audited"
	case m.name == "clock_drift":
		return "nothing that decided told when it did"
	case m.name == "lies":
		return "the figures of no answer could be held against the truth"
	}
	return strings.ReplaceAll(m.name, "_", " ") + " is not known of this store"
}

// CountedMS is how long requests were sent that count: all but the warm-up, in ms.
func (f *Figures) CountedMS() int64 { return f.DurationMS - f.WarmupMS }

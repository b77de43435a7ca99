package report

import (
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
	of func(*Run) *big.Rat
	// whole is what a percentage of the figure is of; nil if it is of nothing.
	whole func(*Run) int64
}

// metrics is all that can be promised, in the order in which it is listed.
var metrics = allMetrics()

func allMetrics() []metric {
	var all []metric
	for _, times := range []struct {
		prefix string
		of     func(*Run) *Quantiles
	}{
		{"", func(r *Run) *Quantiles { return r.Latency }},
		{"service_", func(r *Run) *Quantiles { return r.Service }},
		{"lag_", func(r *Run) *Quantiles { return r.Lag }},
	} {
		for _, quantile := range []struct {
			name string
			of   func(*Quantiles) int64
		}{
			{"p50", func(q *Quantiles) int64 { return q.P50 }},
			{"p90", func(q *Quantiles) int64 { return q.P90 }},
			{"p99", func(q *Quantiles) int64 { return q.P99 }},
			{"p999", func(q *Quantiles) int64 { return q.P999 }},
			{"max", func(q *Quantiles) int64 { return q.Max }},
		} {
			all = append(all, metric{name: times.prefix + quantile.name, kind: duration, of: func(r *Run) *big.Rat {
				if q := times.of(r); q != nil {
					return new(big.Rat).SetInt64(quantile.of(q))
				}
				return nil
			}})
		}
	}
	requests := func(r *Run) int64 { return r.Requests }
	arrivals := func(r *Run) int64 { return r.Requests + r.Dropped }
	keys := func(r *Run) int64 { return r.Keys }
	for _, counted := range []struct {
		name  string
		of    func(*Run) int64
		whole func(*Run) int64
	}{
		{"requests", requests, nil},
		{"allowed", func(r *Run) int64 { return r.Allowed }, requests},
		{"denied", func(r *Run) int64 { return r.Denied }, requests},
		{"errors", func(r *Run) int64 { return r.Errors }, requests},
		{"unknown", func(r *Run) int64 { return r.Unknown }, requests},
		{"late", func(r *Run) int64 { return r.Late }, requests},
		{"dropped", func(r *Run) int64 { return r.Dropped }, arrivals},
		{"keys", keys, nil},
		{"denied_keys", func(r *Run) int64 { return r.KeysDenied }, keys},
		{"over_admitted", func(r *Run) int64 { return r.Audit.OverAdmitted }, nil},
		{"under_admitted", func(r *Run) int64 { return r.Audit.UnderAdmitted }, nil},
		{"longest_denial_run", func(r *Run) int64 { return r.Audit.LongestDenialRun }, nil},
		{"worst_window_units", func(r *Run) int64 { return r.Audit.WorstWindowUnits }, nil},
	} {
		all = append(all, metric{name: counted.name, kind: count, whole: counted.whole, of: func(r *Run) *big.Rat {
			return new(big.Rat).SetInt64(counted.of(r))
		}})
	}
	for _, figure := range []struct {
		name string
		of   func(*Run) float64
	}{
		{"worst_window_ratio", func(r *Run) float64 { return r.Audit.WorstWindowRatio }},
		{"throughput", func(r *Run) float64 { return r.ThroughputPerS }},
	} {
		all = append(all, metric{name: figure.name, of: func(r *Run) *big.Rat { return ratOf(figure.of(r)) }})
	}
	all = append(all,
		metric{name: "fairness", of: func(r *Run) *big.Rat {
			if r.Audit.FairnessUnknown {
				return nil
			}
			return ratOf(r.Audit.Fairness)
		}},
		metric{name: "rate", of: func(r *Run) *big.Rat {
			if r.countedMS() <= 0 {
				return new(big.Rat)
			}
			return big.NewRat(1000*r.Requests, r.countedMS())
		}})
	for _, cost := range costs {
		all = append(all, metric{name: cost.name, of: func(r *Run) *big.Rat {
			if r.Cost == nil || cost.of(r.Cost) == nil {
				return nil
			}
			return ratOf(*cost.of(r.Cost))
		}})
	}
	return all
}

// costs are the figures of a Cost, by the names that they have in JSON.
var costs = []struct {
	name  string
	unit  string // of the figure
	words string // what the figure is of, after it
	title string
	of    func(*Cost) *float64
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

func metricNamed(name string) *metric {
	for i := range metrics {
		if metrics[i].name == name {
			return &metrics[i]
		}
	}
	return nil
}

func metricNames() []string {
	names := make([]string, len(metrics))
	for i, m := range metrics {
		names[i] = m.name
	}
	return names
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
		return "a simulation measures no times, nor does a load test before its first answer"
	case m.name == "fairness":
		return "it is not to be had of reports without the sums of their keys"
	}
	return strings.ReplaceAll(m.name, "_", " ") + " could not be learnt from this store"
}

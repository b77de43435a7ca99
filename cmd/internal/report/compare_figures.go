package report

import (
	"math"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/limitctl/limitctl/cmd/internal/output"
)

// Margins are how much the figures may differ by chance, relative to the
// base. All but the audit's units and worst window have one.
type Margins struct {
	Latency    float64 // of latency and service time
	Throughput float64
	Cost       float64 // of the server, the network and the client
	Fairness   float64
}

// DefaultMargins returns what two runs of the same thing on a quiet machine keep to.
func DefaultMargins() Margins {
	return Margins{Latency: 0.10, Throughput: 0.05, Cost: 0.10, Fairness: 0.05}
}

// OneMargin returns the same margin for all figures that have one.
func OneMargin(share float64) Margins { return Margins{share, share, share, share} }

// Figures that are smaller than these differ by chance, whatever their ratio.
const (
	timeResolution  = 20  // µs: a scheduler's and a timer's own jitter
	shareResolution = 1.0 // percentage points
)

// judge is how a figure of two runs is compared.
type judge struct {
	metric string
	of     func(*Run) (value float64, has bool)
	write  func(float64) string
	// good is 1 if more is better, −1 if less is, and 0 if neither.
	good   int
	margin func(Margins) float64
	// least is the smallest absolute difference that is one.
	least float64
	// free is what is good enough, however it compares: a worst window of 1.
	free float64
	// quantile, and the histogram to find how sure one can be of it.
	quantile  float64
	histogram func(*Histograms) *hdrhistogram.Histogram
}

func judges() []*judge {
	var all []*judge
	quantiles := []struct {
		name     string
		quantile float64
		of       func(*Quantiles) int64
	}{
		{"p50", 0.5, func(q *Quantiles) int64 { return q.P50 }},
		{"p90", 0.9, func(q *Quantiles) int64 { return q.P90 }},
		{"p99", 0.99, func(q *Quantiles) int64 { return q.P99 }},
		{"p999", 0.999, func(q *Quantiles) int64 { return q.P999 }},
	}
	for _, times := range []struct {
		prefix    string
		of        func(*Run) *Quantiles
		histogram func(*Histograms) *hdrhistogram.Histogram
	}{
		{"", func(r *Run) *Quantiles { return r.Latency }, func(h *Histograms) *hdrhistogram.Histogram { return h.Latency }},
		{"service_", func(r *Run) *Quantiles { return r.Service }, func(h *Histograms) *hdrhistogram.Histogram { return h.Service }},
	} {
		for _, q := range quantiles {
			all = append(all, &judge{metric: times.prefix + q.name + "_us", good: -1, least: timeResolution,
				write:  func(f float64) string { return micros(int64(f)) },
				margin: func(m Margins) float64 { return m.Latency }, quantile: q.quantile, histogram: times.histogram,
				of: func(r *Run) (float64, bool) {
					if times.of(r) == nil {
						return 0, false
					}
					return float64(q.of(times.of(r))), true
				}})
		}
	}
	exact := func(Margins) float64 { return 0 }
	always := func(of func(*Run) float64) func(*Run) (float64, bool) {
		return func(r *Run) (float64, bool) { return of(r), true }
	}
	unit := func(f float64) string { return output.Thousands(int64(f)) }
	percent := func(part func(*Run) int64) func(*Run) (float64, bool) {
		return func(r *Run) (float64, bool) {
			return 100 * float64(part(r)) / float64(max(r.Requests+r.Dropped, 1)), r.Requests+r.Dropped > 0
		}
	}
	inPercent := func(f float64) string { return decimal(f) + "%" }
	all = append(all,
		&judge{metric: "worst_window_ratio", good: -1, free: 1, write: ratio, margin: exact, of: always(func(r *Run) float64 { return r.Audit.WorstWindowRatio })},
		&judge{metric: "over_admitted", good: -1, write: unit, margin: exact, of: always(func(r *Run) float64 { return float64(r.Audit.OverAdmitted) })},
		&judge{metric: "under_admitted", good: -1, write: unit, margin: exact, of: always(func(r *Run) float64 { return float64(r.Audit.UnderAdmitted) })},
		&judge{metric: "fairness", good: 1, write: decimal, margin: func(m Margins) float64 { return m.Fairness }, of: func(r *Run) (float64, bool) { return r.Audit.Fairness, !r.Audit.FairnessUnknown }},
		&judge{metric: "allowed_percent", write: inPercent, margin: exact, least: shareResolution, of: percent(func(r *Run) int64 { return r.Allowed })},
		&judge{metric: "errors_percent", good: -1, write: inPercent, margin: exact, of: percent(func(r *Run) int64 { return r.Errors })},
		&judge{metric: "dropped_percent", good: -1, write: inPercent, margin: exact, least: shareResolution / 10, of: percent(func(r *Run) int64 { return r.Dropped })},
		&judge{metric: "denied_keys_percent", write: inPercent, margin: exact, least: shareResolution, of: func(r *Run) (float64, bool) {
			return 100 * float64(r.KeysDenied) / float64(max(r.Keys, 1)), r.Keys > 0
		}},
		&judge{metric: "throughput", good: 1, write: perSecond, margin: func(m Margins) float64 { return m.Throughput }, of: func(r *Run) (float64, bool) { return r.ThroughputPerS, r.Latency != nil }},
	)
	for _, cost := range costs {
		all = append(all, &judge{metric: cost.name, good: -1, write: decimal, margin: func(m Margins) float64 { return m.Cost }, of: func(r *Run) (float64, bool) {
			if r.Cost == nil || cost.of(r.Cost) == nil {
				return 0, false
			}
			return *cost.of(r.Cost), true
		}})
	}
	return all
}

func (j *judge) verdict(before, after float64, margins Margins) Verdict {
	difference := after - before
	switch {
	case difference == 0, math.Abs(difference) <= j.least, math.Abs(difference) <= j.margin(margins)*math.Abs(before),
		j.free > 0 && before <= j.free && after <= j.free:
		return Same
	case j.good == 0:
		return Changed
	case (difference > 0) == (j.good > 0):
		return Better
	}
	return Worse
}

// certain reports whether two quantiles differ by more than the requests that
// happened to be measured; true where there is no telling.
func (j *judge) certain(was, is *Run) bool {
	if j.histogram == nil || was.Histograms == nil || is.Histograms == nil {
		return true
	}
	before, after := j.histogram(was.Histograms), j.histogram(is.Histograms)
	if before == nil || after == nil {
		return true
	}
	beforeLow, beforeHigh := interval(before, j.quantile)
	afterLow, afterHigh := interval(after, j.quantile)
	return afterLow > beforeHigh || afterHigh < beforeLow
}

// interval is where a quantile lies, three standard deviations to either side: of n
// requests the number of those below it is binomial.
func interval(h *hdrhistogram.Histogram, quantile float64) (low, high int64) {
	n := float64(h.TotalCount())
	if n == 0 {
		return 0, math.MaxInt64
	}
	spread := 3 * math.Sqrt(quantile*(1-quantile)/n)
	return h.ValueAtQuantile(100 * math.Max(0, quantile-spread)), h.ValueAtQuantile(100 * math.Min(1, quantile+spread))
}

package report

import (
	"math"
	"strings"

	"github.com/limitctl/limitctl/internal/output"
)

// figure is one figure that is compared.
type figure struct {
	// metric is the name in JSON: as in a threshold, with the unit at the end of times and shares.
	metric string
	of     func(*Run) (value float64, has bool)
	write  func(float64) string
	// good is 1 if more is better, −1 if less is, and 0 if neither is.
	good int
	// margin is the relative difference that counts as none, and least the absolute one. The audit and errors have
	// none: one more is a regression.
	margin, least float64
	// free is a value that is good enough, even if it was better before: a worst window of 1.
	free float64
	// ofMachine: a load generator that was the limit decides it, so that it says nothing then.
	ofMachine bool
	// onRequest: it is judged only if --only names it.
	onRequest bool
}

// The margins: relative ones, and what no clock and no sample resolves.
const (
	timeMargin, throughputMargin, costMargin, fairnessMargin = 0.25, 0.05, 0.10, 0.05

	timeResolution  = 50  // µs
	shareResolution = 1.0 // percentage points
)

// figures returns all figures that are compared, in the order of the table.
func figures() []*figure {
	named := func(metric string) func(*Run) (float64, bool) {
		return func(r *Run) (float64, bool) { return r.Value(metric) }
	}
	shareOf := func(metric string) func(*Run) (float64, bool) {
		return func(r *Run) (float64, bool) {
			part, _ := r.Value(metric)
			return 100 * part / float64(max(r.Planned(), 1)), r.Planned() > 0
		}
	}
	deniedKeys := func(r *Run) (float64, bool) {
		return 100 * float64(r.KeysDenied) / float64(max(r.Keys, 1)), r.Keys > 0
	}
	throughput := func(r *Run) (float64, bool) { return r.ThroughputPerS, r.Latency != nil }
	units := func(f float64) string { return output.Thousands(int64(f)) }
	micros := func(f float64) string { return output.Micros(int64(f)) }
	inPercent := func(f float64) string { return output.Decimal(f) + "%" }
	var all []*figure
	for _, name := range []string{"p50", "p99"} {
		all = append(all, &figure{metric: name + "_us", of: named(name), write: micros, good: -1, margin: timeMargin,
			least: timeResolution, ofMachine: true})
	}
	all = append(all,
		&figure{metric: "worst_window_ratio", of: named("worst_window_ratio"), write: output.Ratio, good: -1, free: 1},
		&figure{metric: "over_admitted", of: named("over_admitted"), write: units, good: -1},
		&figure{metric: "under_admitted", of: named("under_admitted"), write: units, good: -1},
		&figure{metric: "fairness", of: named("fairness"), write: output.Decimal, good: 1, margin: fairnessMargin},
		&figure{metric: "allowed_percent", of: shareOf("allowed"), write: inPercent, least: shareResolution},
		&figure{metric: "errors_percent", of: shareOf("errors"), write: inPercent, good: -1},
		&figure{metric: "dropped_percent", of: shareOf("dropped"), write: inPercent, good: -1,
			least: shareResolution / 10, ofMachine: true},
		&figure{metric: "denied_keys_percent", of: deniedKeys, write: inPercent, least: shareResolution},
		&figure{metric: "throughput", of: throughput, write: output.PerSecond, good: 1, margin: throughputMargin, ofMachine: true},
	)
	for _, cost := range Costs {
		all = append(all, &figure{metric: cost.Name, of: named(cost.Name), write: output.Decimal, good: -1, margin: costMargin,
			onRequest: true})
	}
	return all
}

// name is the metric without its unit, as in a threshold.
func (f *figure) name() string {
	return strings.TrimSuffix(strings.TrimSuffix(f.metric, "_percent"), "_us")
}

// verdict says what it means that the figure changed. margin replaces the figure's own, if that is not 0.
func (f *figure) verdict(before, after float64, margin *float64) Verdict {
	noise := f.margin
	if margin != nil && noise > 0 {
		noise = *margin
	}
	difference := after - before
	switch {
	case math.Abs(difference) <= math.Max(f.least, noise*math.Abs(before)), f.free > 0 && before <= f.free && after <= f.free:
		return Same
	case f.good == 0:
		return Changed
	case (difference > 0) == (f.good > 0):
		return Better
	}
	return Worse
}

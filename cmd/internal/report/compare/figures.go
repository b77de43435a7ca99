package compare

import (
	"math"
	"strings"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/cmd/internal/report"
)

// Margins are how much the figures may differ by chance, as a share of the base. The
// audit's units and worst window have no margin.
type Margins struct {
	Latency    float64 // of latency and service time
	Throughput float64
	Cost       float64 // of the server, the network and the client
	Fairness   float64
}

// DefaultMargins returns the margins that two equal runs on a quiet machine stay within.
func DefaultMargins() Margins {
	return Margins{Latency: 0.10, Throughput: 0.05, Cost: 0.10, Fairness: 0.05}
}

// OneMargin returns the same margin for all figures that have one.
func OneMargin(share float64) Margins { return Margins{share, share, share, share} }

// Differences below these are chance, however large they are as a share.
const (
	timeResolution  = 20  // µs: a scheduler's and a timer's own jitter
	shareResolution = 1.0 // percentage points
)

// comparedFigure is a figure of a run, and how two of them are compared.
type comparedFigure struct {
	metric string
	of     func(*report.Run) (value float64, has bool)
	write  func(float64) string
	// good is 1 if more is better, −1 if less is, and 0 if neither is.
	good   int
	margin func(Margins) float64 // nil for none
	// isRare: what neither run had any of is not worth a line.
	isRare bool
	// least is the smallest absolute difference that counts.
	least float64
	// free is a value that is good enough, even if it was better before: a worst window of 1.
	free float64
	// noise is what it depends on besides the limiter.
	noise noiseKind
	// quantile is which quantile the figure is of a histogram, which tells how certain it
	// is; histogram is nil for other figures.
	quantile  float64
	histogram func(*report.Histograms) *hdrhistogram.Histogram
	// ofServer: the server counts it, and the work of all of its clients is in it.
	ofServer bool
	// once is how much of it a run can have that belongs to no decision.
	once float64
}

// What happens once in a run and not in each: scripts are loaded into a server that has just begun, and connections
// are opened and greeted.
const (
	onceBytes    = 16 << 10
	onceCommands = 100
)

// comparedFigures returns all figures that are compared, in the order of the table.
func comparedFigures() []*comparedFigure {
	named := func(metric string) func(*report.Run) (float64, bool) {
		return func(r *report.Run) (float64, bool) { return r.Value(metric) }
	}
	shareOf := func(metric string) func(*report.Run) (float64, bool) {
		return func(r *report.Run) (float64, bool) {
			part, _ := r.Value(metric)
			return 100 * part / float64(max(r.Requests+r.Dropped, 1)), r.Requests+r.Dropped > 0
		}
	}
	deniedKeys := func(r *report.Run) (float64, bool) {
		return 100 * float64(r.KeysDenied) / float64(max(r.Keys, 1)), r.Keys > 0
	}
	throughput := func(r *report.Run) (float64, bool) { return r.ThroughputPerS, r.Latency != nil }
	units := func(f float64) string { return output.Thousands(int64(f)) }
	inPercent := func(f float64) string { return output.Decimal(f) + "%" }
	least := shareResolution
	all := append(comparedTimes(), []*comparedFigure{
		{metric: "worst_window_ratio", of: named("worst_window_ratio"), good: -1, free: 1, write: output.Ratio},
		{metric: "over_admitted", of: named("over_admitted"), good: -1, write: units},
		{metric: "under_admitted", of: named("under_admitted"), good: -1, write: units},
		{metric: "fairness", of: named("fairness"), good: 1, write: output.Decimal, margin: func(m Margins) float64 { return m.Fairness }},
		{metric: "allowed_percent", of: shareOf("allowed"), write: inPercent, least: least},
		{metric: "local_percent", of: shareOf("local"), isRare: true, write: inPercent, least: least},
		{metric: "unguarded_percent", of: shareOf("unguarded"), isRare: true, good: -1, write: inPercent},
		{metric: "errors_percent", of: shareOf("errors"), good: -1, write: inPercent},
		{metric: "dropped_percent", of: shareOf("dropped"), good: -1, noise: byMachine, write: inPercent, least: least / 10},
		{metric: "denied_keys_percent", of: deniedKeys, write: inPercent, least: least},
		{metric: "throughput", of: throughput, good: 1, noise: byPauses, write: output.PerSecond,
			margin: func(m Margins) float64 { return m.Throughput }},
	}...)
	for _, cost := range report.Costs {
		figure := &comparedFigure{
			metric: cost.Name, of: named(cost.Name), good: -1, write: output.Decimal, margin: func(m Margins) float64 { return m.Cost },
		}
		switch cost.Name {
		case "server_cpu_us", "client_cpu_us":
			figure.noise = byTime
		case "round_trips", "commands", "network_in_bytes", "network_out_bytes":
			figure.noise = bySharing
			if figure.once = onceCommands; cost.Unit == "B" {
				figure.once = onceBytes
			}
		}
		figure.ofServer = strings.HasPrefix(cost.Name, "network") || cost.Name == "commands" || cost.Name == "server_cpu_us"
		all = append(all, figure)
	}
	return all
}

// comparedTimes are the quantiles of latency and service time.
func comparedTimes() (all []*comparedFigure) {
	for _, times := range []struct {
		prefix    string
		histogram func(*report.Histograms) *hdrhistogram.Histogram
	}{
		{"", func(h *report.Histograms) *hdrhistogram.Histogram { return h.Latency }},
		{"service_", func(h *report.Histograms) *hdrhistogram.Histogram { return h.Service }},
	} {
		for _, figure := range report.TimeFigures() {
			if figure.Name == "max" { // one request
				continue
			}
			all = append(all, &comparedFigure{
				metric: times.prefix + figure.Name + "_us", good: -1, least: timeResolution, noise: byTime,
				write:    func(f float64) string { return output.Micros(int64(f)) },
				margin:   func(m Margins) float64 { return m.Latency },
				quantile: figure.Quantile, histogram: times.histogram,
				of: func(r *report.Run) (float64, bool) {
					us, known := r.Value(times.prefix + figure.Name)
					return us, known && (figure.Name != "p9999" || r.Requests >= report.EnoughForP9999)
				},
			})
		}
	}
	return all
}

// verdict says what it means that the figure changed, by the values alone.
func (c *comparedFigure) verdict(before, after float64, margins Margins) report.Verdict {
	difference := after - before
	noise := c.least
	if c.margin != nil {
		noise = math.Max(noise, c.margin(margins)*math.Abs(before))
	}
	switch {
	case math.Abs(difference) <= noise, c.free > 0 && before <= c.free && after <= c.free:
		return Same
	case c.good == 0:
		return Changed
	case (difference > 0) == (c.good > 0):
		return Better
	}
	return Worse
}

// outsideChance reports whether two quantiles differ by more than chance, as far as
// histograms tell. Without histograms it is true.
func (c *comparedFigure) outsideChance(was, is *report.Run) bool {
	if c.histogram == nil || was.Histograms == nil || is.Histograms == nil {
		return true
	}
	before, after := c.histogram(was.Histograms), c.histogram(is.Histograms)
	if before == nil || after == nil {
		return true
	}
	beforeLow, beforeHigh := interval(before, c.quantile)
	afterLow, afterHigh := interval(after, c.quantile)
	return afterLow > beforeHigh || afterHigh < beforeLow
}

// interval is where a quantile lies, three standard deviations to either side; 0 is the
// mean. Of n requests the number below a quantile has a binomial distribution.
func interval(h *hdrhistogram.Histogram, quantile float64) (low, high int64) {
	n := float64(h.TotalCount())
	if n == 0 {
		return 0, math.MaxInt64
	}
	if quantile == 0 {
		spread := 3 * h.StdDev() / math.Sqrt(n)
		return int64(h.Mean() - spread), int64(math.Ceil(h.Mean() + spread))
	}
	spread := 3 * math.Sqrt(quantile*(1-quantile)/n)
	return h.ValueAtQuantile(100 * math.Max(0, quantile-spread)), h.ValueAtQuantile(100 * math.Min(1, quantile+spread))
}

package report

import (
	"fmt"
	"html/template"
	"math"
	"strings"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/cmd/internal/report/chart"
)

// mostColumns is how many parts a timeline is drawn in.
const mostColumns = 120

// column is one part of a timeline: counts are summed up over its intervals, of
// latencies it has the worst.
type column struct {
	Interval
	width time.Duration
	// covers is how much of the width has intervals: less in the last column, where
	// they do not come out even.
	covers time.Duration
}

// columnsOf merges a timeline into at most that many columns.
func (r *Run) columnsOf(most int) []column {
	if len(r.Timeline) == 0 {
		return nil
	}
	width := max(r.IntervalMS, 1)
	slots := r.Timeline[len(r.Timeline)-1].OffsetMS/width + 1
	together := (slots + int64(most) - 1) / int64(most)
	columns := make([]column, (slots+together-1)/together)
	for i := range columns {
		columns[i].OffsetMS = int64(i) * together * width
		columns[i].width = milliseconds(together * width)
		columns[i].covers = milliseconds(min(together, slots-int64(i)*together) * width)
	}
	for _, interval := range r.Timeline {
		c := &columns[min(max(interval.OffsetMS, 0)/width/together, int64(len(columns)-1))]
		addUp(&c.Interval, &interval)
	}
	return columns
}

// outcomes are the layers of the throughput chart, from the bottom up.
var outcomes = []struct {
	name string
	of   func(*column) int64
}{
	{"allowed", func(c *column) int64 { return c.Allowed }},
	{"denied", func(c *column) int64 { return c.Denied }},
	{"local", func(c *column) int64 { return c.Local }},
	{"unguarded", func(c *column) int64 { return c.Unguarded }},
	{"errors", func(c *column) int64 { return c.Errors }},
	{"dropped", func(c *column) int64 { return c.Dropped }},
}

// silence is 1 for each column in which requests were due and nothing came of any, and
// else 0: a store that is silent must not look like a load that paused. The requests are
// among those of a later column.
func (r *Run) silence(columns []column) []int64 {
	silent := make([]int64, len(columns))
	for i := range columns {
		sum := int64(0)
		for _, outcome := range outcomes {
			sum += outcome.of(&columns[i])
		}
		const enough = 3 // due requests, so that it is not by chance that there is none
		isDue := r.isEven() && (r.Rate == 0 || r.Rate*columns[i].covers.Seconds() >= enough)
		if sum == 0 && isDue && i < len(columns)-1 {
			silent[i] = 1
		}
	}
	return silent
}

// isEven reports whether requests are due all the time, as far as the report tells.
func (r *Run) isEven() bool {
	return r.Scenario == "" && r.Seed != nil && !strings.Contains(r.Load, "bursts of") && !strings.Contains(r.Load, "stages ")
}

// timeAxis gives a plot the axis of time that all charts over a run's time have.
func timeAxis(p *chart.Plot, columns []column) (columnWidth float64) {
	length := time.Duration(len(columns)) * columns[0].width
	p.Xs = chart.Time(length, 6)
	p.XUnit = "time since the start"
	return 1 / float64(len(columns))
}

// throughputChart draws what became of requests over time; legend is the outcomes
// that there are.
func (r *Run) throughputChart(kind Kind, top float64) (drawn template.HTML, legend []string) {
	columns := r.columnsOf(mostColumns)
	if len(columns) == 0 {
		return "", nil
	}
	p := &chart.Plot{Label: "Requests over time, by what became of them, of " + r.Title(), YUnit: "requests per second"}
	if kind == Simulation {
		p.YUnit = "requests per " + output.Duration(columns[0].width)
	}
	width := timeAxis(p, columns)
	axis, ticks := chart.Linear(top, 5)
	p.Ys = ticks
	below := make([]float64, len(columns))
	for _, outcome := range outcomes {
		var layer chart.Path
		for i := range columns {
			value := outcome.of(&columns[i])
			if value == 0 {
				continue
			}
			from := below[i]
			below[i] += columns[i].rate(kind, value) / axis
			x := float64(i) * width
			layer.Box(x, from, x+width, below[i])
		}
		p.Add(outcome.name, &layer)
		if !layer.IsEmpty() {
			legend = append(legend, outcome.name)
		}
	}
	var silence chart.Path
	for i, silent := range r.silence(columns) {
		if silent > 0 {
			silence.Box(float64(i)*width, 0, float64(i+1)*width, 1)
		}
	}
	if p.Add(silentLayer, &silence); !silence.IsEmpty() {
		legend = append(legend, silentLayer)
	}
	r.addEdges(p, columns)
	for i := range columns {
		p.Hint(float64(i)*width, width, columns[i].inWords())
	}
	return p.HTML(), legend
}

// silentLayer is the class of a chart's parts in which nothing was answered.
const silentLayer = "silent"

// addEdges marks when windows of the limit end and begin.
func (r *Run) addEdges(p *chart.Plot, columns []column) {
	var edges chart.Path
	length := float64(len(columns)) * float64(columns[0].width.Milliseconds())
	for _, at := range r.EdgesMS {
		if x := float64(at) / length; x > 0 && x < 1 {
			edges.MoveTo(x, 0)
			edges.LineTo(x, 1)
		}
	}
	p.Add("edge", &edges)
}

// rate is a count of the column on the throughput chart's axis.
func (c *column) rate(kind Kind, n int64) float64 {
	if kind == Simulation {
		return float64(n)
	}
	return float64(n) / c.covers.Seconds()
}

// highest is the top of the run's throughput chart.
func (r *Run) highest(kind Kind) float64 {
	top := 0.0
	for _, c := range r.columnsOf(mostColumns) {
		all := int64(0)
		for _, outcome := range outcomes {
			all += outcome.of(&c)
		}
		top = math.Max(top, c.rate(kind, all))
	}
	return top
}

func (c *column) inWords() string {
	from := time.Duration(c.OffsetMS) * time.Millisecond
	text := fmt.Sprintf("%s to %s:", output.Duration(from), output.Duration(from+c.covers))
	for i, outcome := range outcomes {
		if n := outcome.of(c); n > 0 || i < 2 {
			text += fmt.Sprintf(" %s %s,", output.Thousands(n), outcome.name)
		}
	}
	text = strings.TrimSuffix(text, ",")
	if c.Max > 0 {
		text += fmt.Sprintf("; p50 %s, p99 %s, max %s", micros(c.P50), micros(c.P99), micros(c.Max))
	}
	return text
}

// latencyChart draws latency over time, on an axis that several runs can share.
func (r *Run) latencyChart(axis *chart.Logarithmic) template.HTML {
	columns := r.columnsOf(mostColumns)
	if len(columns) == 0 || axis == nil {
		return ""
	}
	p := &chart.Plot{Label: "Latency over time of " + r.Title(), YUnit: "latency, log scale", Ys: axis.Ticks}
	width := timeAxis(p, columns)
	for _, quantile := range []struct {
		class string
		of    func(*column) int64
	}{
		{"line max", func(c *column) int64 { return c.Max }},
		{"line p99", func(c *column) int64 { return c.P99 }},
		{"line p50", func(c *column) int64 { return c.P50 }},
	} {
		var curve chart.Path
		drawn := false
		for i := range columns {
			value := quantile.of(&columns[i])
			if value <= 0 { // nothing was answered then
				drawn = false
				continue
			}
			x, y := (float64(i)+0.5)*width, axis.At(value)
			if drawn {
				curve.LineTo(x, y)
			} else {
				curve.MoveTo(x, y)
				curve.Dot() // so that a value between two gaps is seen
			}
			drawn = true
		}
		p.Add(quantile.class, &curve)
	}
	r.addEdges(p, columns)
	for i := range columns {
		p.Hint(float64(i)*width, width, columns[i].inWords())
	}
	return p.HTML()
}

// latencyAxis holds the latencies over time of all runs; nil if there are none.
func (d *Document) latencyAxis() *chart.Logarithmic {
	var least, most int64
	for i := range d.Runs {
		for _, c := range d.Runs[i].columnsOf(mostColumns) {
			if c.Max <= 0 {
				continue
			}
			if low := max(c.P50, 1); least == 0 || low < least {
				least = low
			}
			most = max(most, c.Max)
		}
	}
	if most == 0 {
		return nil
	}
	return chart.NewLogarithmic(least, most, micros)
}

// curves is a percentile curve of one run.
type curves struct{ latency, service []curvePoint }

// curvesOf returns the curves of a run, of its histograms if it has them. Exact
// tells whether it has.
func (r *Run) curvesOf() (c curves, exact bool) {
	if r.Histograms != nil {
		c.latency, c.service = curveOf(r.Histograms.Latency), curveOf(r.Histograms.Service)
	}
	if exact = c.latency != nil; !exact {
		c.latency = curveOfQuantiles(r.Latency)
	}
	if c.service == nil {
		c.service = curveOfQuantiles(r.Service)
	}
	return c, exact
}

// curveChart draws the percentile curves of all runs; empty if there are none. Exact
// tells whether all are of histograms, and not of a few quantiles.
func (d *Document) curveChart() (drawn template.HTML, exact bool) {
	all := make([]curves, len(d.Runs))
	least, most, last := int64(math.MaxInt64), int64(0), 0.0
	exact = true
	for i := range d.Runs {
		one, is := d.Runs[i].curvesOf()
		all[i], exact = one, exact && is
		for _, curve := range [][]curvePoint{one.latency, one.service} {
			for _, c := range curve {
				least, most, last = min(least, c.value), max(most, c.value), math.Max(last, c.nines)
			}
		}
	}
	if last == 0 {
		return "", false
	}
	axis := chart.NewLogarithmic(least, most, micros)
	p := &chart.Plot{
		Label: "Latency by percentile", YUnit: "time, log scale", XUnit: "percentile, log scale: each step is ten times rarer", Ys: axis.Ticks,
	}
	for _, t := range []struct {
		nines float64
		label string
	}{{math.Log10(2), "50"}, {1, "90"}, {2, "99"}, {3, "99.9"}, {4, "99.99"}, {5, "99.999"}, {6, "99.9999"}} {
		if t.nines <= last {
			p.Xs = append(p.Xs, chart.Tick{At: t.nines / last, Label: t.label})
		}
	}
	draw := func(class string, curve []curvePoint) {
		var path chart.Path
		for i, c := range curve {
			to := path.LineTo
			if i == 0 {
				to = path.MoveTo
			}
			to(c.nines/last, axis.At(c.value))
		}
		p.Add(class, &path)
	}
	for i, c := range all {
		if len(all) <= colors { // more lines could not be told apart
			draw("line service "+runKey(i), c.service)
		}
		draw("line "+runKey(i), c.latency)
	}
	return p.HTML(), exact
}

// colors is how many runs can be told apart by colour.
const colors = 7

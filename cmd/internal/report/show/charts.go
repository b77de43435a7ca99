package show

import (
	"fmt"
	"html/template"
	"math"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/cmd/internal/report"
	"github.com/limitctl/limitctl/cmd/internal/report/chart"
)

// timeAxis gives a plot the axis of time that all charts over a run's time have.
func timeAxis(p *chart.Plot, columns []column) (columnWidth float64) {
	length := time.Duration(len(columns)) * columns[0].width
	p.Xs = chart.Time(length, 6)
	p.XUnit = "time since the start"
	return 1 / float64(len(columns))
}

// throughputChart draws what became of requests over time; legend is the outcomes
// that there are.
func throughputChart(r *report.Run, kind report.Kind, top float64) (drawn template.HTML, legend []string) {
	columns := columnsOf(r, mostColumns)
	if len(columns) == 0 {
		return "", nil
	}
	p := &chart.Plot{Label: "Requests over time, by what became of them, of " + r.Title(), YUnit: "requests per second"}
	if kind == report.Simulation {
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
	for i, silent := range silenceOf(r, columns) {
		if silent > 0 {
			silence.Box(float64(i)*width, 0, float64(i+1)*width, 1)
		}
	}
	if p.Add(silentLayer, &silence); !silence.IsEmpty() {
		legend = append(legend, silentLayer)
	}
	addEdges(r, p, columns)
	for i := range columns {
		p.Hint(float64(i)*width, width, columns[i].inWords())
	}
	return p.HTML(), legend
}

// silentLayer is the class of a chart's parts in which nothing was answered.
const silentLayer = "silent"

// addEdges marks when windows of the limit end and begin.
func addEdges(r *report.Run, p *chart.Plot, columns []column) {
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
func (c *column) rate(kind report.Kind, n int64) float64 {
	if kind == report.Simulation {
		return float64(n)
	}
	return float64(n) / c.covers.Seconds()
}

// highest is the top of the run's throughput chart.
func highest(r *report.Run, kind report.Kind) float64 {
	top := 0.0
	for _, c := range columnsOf(r, mostColumns) {
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
		text += fmt.Sprintf("; p50 %s, p99 %s, max %s", output.Micros(c.P50), output.Micros(c.P99), output.Micros(c.Max))
	}
	return text
}

// latencyChart draws latency over time, on an axis that several runs can share.
func latencyChart(r *report.Run, axis *chart.Logarithmic) template.HTML {
	columns := columnsOf(r, mostColumns)
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
	addEdges(r, p, columns)
	for i := range columns {
		p.Hint(float64(i)*width, width, columns[i].inWords())
	}
	return p.HTML()
}

// latencyAxis holds the latencies over time of all runs; nil if there are none.
func latencyAxis(d *report.Document) *chart.Logarithmic {
	var least, most int64
	for i := range d.Runs {
		for _, c := range columnsOf(&d.Runs[i], mostColumns) {
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
	return chart.NewLogarithmic(least, most, output.Micros)
}

// curves is a percentile curve of one run.
type curves struct{ latency, service []curvePoint }

// curvesOfRun returns the curves of a run, of its histograms if it has them. Exact
// tells whether it has.
func curvesOfRun(r *report.Run) (c curves, exact bool) {
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
func curveChart(d *report.Document) (drawn template.HTML, exact bool) {
	all := make([]curves, len(d.Runs))
	least, most, last := int64(math.MaxInt64), int64(0), 0.0
	exact = true
	for i := range d.Runs {
		one, is := curvesOfRun(&d.Runs[i])
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
	axis := chart.NewLogarithmic(least, most, output.Micros)
	p := &chart.Plot{
		Label: "Latency by percentile", YUnit: "time, log scale", XUnit: "percentile, log scale: each step is ten times rarer",
		Ys: axis.Ticks,
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
		if len(all) <= colors { // more lines are too many to distinguish
			draw("line service "+runKey(i), c.service)
		}
		draw("line "+runKey(i), c.latency)
	}
	return p.HTML(), exact
}

// colors is how many runs can be distinguished by colour.
const colors = 7

// curvePoint is one point of a percentile curve.
type curvePoint struct {
	nines float64 // log10(1/(1-quantile)): 0 is the least, 1 is p90, 2 is p99, 3 is p99.9
	value int64   // µs
}

// curveOf returns the percentile curve of a histogram, as far out as it has values
// to tell apart: with a thousand of them there is nothing to say of p99.99.
func curveOf(h *hdrhistogram.Histogram) []curvePoint {
	if h == nil || h.TotalCount() == 0 {
		return nil
	}
	const steps = 32 // for each nine
	last := math.Log10(float64(h.TotalCount()))
	var points []curvePoint
	var percentiles []float64
	for i := 0; ; i++ {
		nines := float64(i) / steps
		if nines > last {
			break
		}
		points = append(points, curvePoint{nines: nines})
		percentiles = append(percentiles, 100*(1-math.Pow(10, -nines)))
	}
	for i, value := range h.ValueAtPercentilesSlice(percentiles) {
		points[i].value = value
	}
	if last > points[len(points)-1].nines {
		points = append(points, curvePoint{nines: last, value: h.Max()})
	}
	return points
}

// curveOfQuantiles is the little that a few quantiles say of the curve.
func curveOfQuantiles(q *report.Quantiles) []curvePoint {
	if q == nil {
		return nil
	}
	points := []curvePoint{{math.Log10(2), q.P50}, {1, q.P90}}
	if q.P95 > 0 {
		points = append(points, curvePoint{-math.Log10(1 - 0.95), q.P95})
	}
	return append(points, curvePoint{2, q.P99}, curvePoint{3, q.P999})
}

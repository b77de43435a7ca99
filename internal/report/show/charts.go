package show

import (
	"fmt"
	"html/template"
	"math"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/internal/report"
	"github.com/limitctl/limitctl/internal/report/chart"
)

// throughputChart draws what became of requests over time; legend is the outcomes
// that there are.
func throughputChart(r *report.Run, kind report.Kind, top float64) (drawn template.HTML, legend []string) {
	columns := columnsOf(r, mostColumns)
	if len(columns) == 0 {
		return "", nil
	}
	p := &chart.Plot{Label: "Requests over time, by what became of them, of " + r.Title(), YUnit: "requests per second",
		XUnit: "time since the start", Xs: chart.Time(time.Duration(len(columns))*columns[0].width, 6)}
	if kind == report.Simulation {
		p.YUnit = "requests per " + output.Duration(columns[0].width)
	}
	axis, ticks := chart.Linear(top, 5)
	p.Ys = ticks
	width := 1 / float64(len(columns))
	below := make([]float64, len(columns))
	var warming chart.Path
	for i := range columns {
		if columns[i].warmup {
			warming.Box(float64(i)*width, 0, float64(i+1)*width, 1)
		}
	}
	if p.Add(warmUp, &warming); !warming.IsEmpty() {
		legend = append(legend, warmUp)
	}
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
	for i := range columns {
		p.Hint(float64(i)*width, width, columns[i].inWords())
	}
	return p.HTML(), legend
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
	if c.warmup {
		return text + " " + warmUp + ", not counted"
	}
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

// colors is how many runs can be distinguished by colour.
const colors = 7

// curveChart draws the latency of all runs by percentile, of those that have histograms; empty if there are none.
func curveChart(d *report.Document) template.HTML {
	all := make([][]curvePoint, len(d.Runs))
	least, most, last := int64(math.MaxInt64), int64(0), 0.0
	for i := range d.Runs {
		if h := d.Runs[i].Histograms; h != nil {
			all[i] = curveOf(h.Latency)
		}
		for _, c := range all[i] {
			least, most, last = min(least, c.value), max(most, c.value), math.Max(last, c.nines)
		}
	}
	if last == 0 {
		return ""
	}
	axis := chart.NewLogarithmic(least, most, output.Micros)
	p := &chart.Plot{Label: "Latency by percentile", YUnit: "latency, log scale", XUnit: "percentile, each step ten times rarer",
		Ys: axis.Ticks}
	for _, t := range []struct {
		nines float64
		label string
	}{{math.Log10(2), "50"}, {1, "90"}, {2, "99"}, {3, "99.9"}, {4, "99.99"}, {5, "99.999"}, {6, "99.9999"}} {
		if t.nines <= last {
			p.Xs = append(p.Xs, chart.Tick{At: t.nines / last, Label: t.label})
		}
	}
	for i, curve := range all {
		var path chart.Path
		for j, c := range curve {
			to := path.LineTo
			if j == 0 {
				to = path.MoveTo
			}
			to(c.nines/last, axis.At(c.value))
		}
		p.Add(fmt.Sprintf("line run%d", i%colors), &path)
	}
	return p.HTML()
}

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
	for i := 0; float64(i)/steps <= last; i++ {
		nines := float64(i) / steps
		points = append(points, curvePoint{nines: nines})
		percentiles = append(percentiles, 100*(1-math.Pow(10, -nines)))
	}
	for i, value := range h.ValueAtPercentilesSlice(percentiles) {
		points[i].value = value
	}
	return append(points, curvePoint{nines: last, value: h.Max()})
}

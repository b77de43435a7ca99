package report

import (
	"fmt"
	"html"
	"html/template"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/limitctl/limitctl/internal/output"
)

// plot is a chart under construction. Its area stretches to the width of the page, while
// its labels, which are next to it, stay as large as the page's text. So one drawing is
// readable on a phone and on paper. Places in it are from 0 to 1, y upwards.
type plot struct {
	Label        string // what it shows, for those who do not see it
	YUnit, XUnit string
	Ys, Xs       []tick

	shapes strings.Builder
}

// tick is a place on an axis.
type tick struct {
	At    float64 // from 0 to 1
	Label string
}

// extent is the side of the square that plots are drawn on.
const extent = 1000

// coordinate writes a place from 0 to 1 on the square, as short as can be.
func coordinate(f float64) string { return output.Decimals(math.Min(math.Max(f, 0), 1)*extent, 1) }

// path is a line or an area under construction.
type path struct{ d strings.Builder }

// MoveTo begins a new part of the path.
func (p *path) MoveTo(x, y float64) { p.d.WriteString("M" + point(x, y)) }

// LineTo draws a line from where the path is.
func (p *path) LineTo(x, y float64) { p.d.WriteString("L" + point(x, y)) }

// Box draws a box from one corner to the opposite one.
func (p *path) Box(x, y, toX, toY float64) {
	fmt.Fprintf(&p.d, "M%sH%sV%sH%sz", point(x, y), coordinate(toX), coordinate(1-toY), coordinate(x))
}

// IsEmpty reports whether nothing was drawn.
func (p *path) IsEmpty() bool { return p.d.Len() == 0 }

func point(x, y float64) string { return coordinate(x) + " " + coordinate(1-y) }

// Add adds a path. Its class says what it looks like.
func (p *plot) Add(class string, path *path) {
	if !path.IsEmpty() {
		fmt.Fprintf(&p.shapes, `<path class="%s" d="%s"/>`, class, path.d.String())
	}
}

// Hint adds a text that is shown when somebody points at a part of the area.
func (p *plot) Hint(x, width float64, text string) {
	fmt.Fprintf(&p.shapes, `<rect class="hint" x="%s" y="0" width="%s" height="%d"><title>%s</title></rect>`,
		coordinate(x), coordinate(width), extent, html.EscapeString(text))
}

// HTML returns the finished chart. It consists of numbers and of texts that are escaped.
func (p *plot) HTML() template.HTML {
	var b strings.Builder
	fmt.Fprintf(&b, `<div class="plot" role="img" aria-label="%s"><div class="yunit">%s</div><div class="ys">`,
		html.EscapeString(output.Escape(p.Label)), html.EscapeString(p.YUnit))
	var grid strings.Builder
	for _, y := range p.Ys {
		fmt.Fprintf(&b, `<span style="bottom:%s%%">%s</span>`, output.Decimals(100*y.At, 2), html.EscapeString(y.Label))
		grid.WriteString("M0 " + coordinate(1-y.At) + "H" + strconv.Itoa(extent))
	}
	for _, x := range p.Xs {
		grid.WriteString("M" + coordinate(x.At) + " 0V" + strconv.Itoa(extent))
	}
	fmt.Fprintf(&b, `</div><svg viewBox="0 0 %d %d" preserveAspectRatio="none"><path class="grid" d="%s"/>%s</svg><div class="xs">`,
		extent, extent, grid.String(), p.shapes.String())
	for _, x := range p.Xs {
		class := ""
		switch {
		case x.At < firstTick:
			class = ` class="first"`
		case x.At > lastTick:
			class = ` class="last"`
		}
		fmt.Fprintf(&b, `<span%s style="left:%s%%">%s</span>`, class, output.Decimals(100*x.At, 2), html.EscapeString(x.Label))
	}
	fmt.Fprintf(&b, `</div><div class="xunit">%s</div></div>`, html.EscapeString(p.XUnit))
	return template.HTML(b.String())
}

// A label before firstTick begins at its tick, one after lastTick ends there, and others are
// centred.
const firstTick, lastTick = 0.03, 0.95

// Linear returns an axis from 0 to at least top, with about that many ticks: the value at
// its end, and the ticks.
func linearAxis(top float64, about int) (end float64, ticks []tick) {
	if top <= 0 {
		top = 1
	}
	step := math.Pow(10, math.Floor(math.Log10(top/float64(about))))
	for _, factor := range []float64{1, 2, 5, 10} {
		if top/(step*factor) <= float64(about) {
			step *= factor
			break
		}
	}
	steps := int(math.Ceil(top/step - 1e-9))
	for i := 0; i <= steps; i++ {
		ticks = append(ticks, tick{float64(i) / float64(steps), short(float64(i) * step)})
	}
	return float64(steps) * step, ticks
}

// short writes a figure for an axis: "500", "1.5k", "2M".
func short(f float64) string {
	for _, unit := range []struct {
		of   float64
		name string
	}{{1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if f >= unit.of {
			return output.Decimals(f/unit.of, 2) + unit.name
		}
	}
	return output.Decimals(f, 3)
}

// Logarithmic is a logarithmic axis.
type logAxis struct {
	Ticks     []tick
	low, high float64 // log10 of its ends
}

// newLogAxis returns an axis that holds all whole numbers from least to most. Values
// below 1 are taken for 1. label writes the value of a tick.
func newLogAxis(least, most int64, label func(int64) string) *logAxis {
	least = max(least, 1)
	most = max(most, least)
	var steps []float64
	low, high := 0, 0
	for decade := 1.0; decade <= 1e13; decade *= 10 {
		for _, factor := range []float64{1, 2, 5} {
			value := decade * factor
			if value <= float64(least) {
				low = len(steps)
			}
			steps = append(steps, value)
			if value >= float64(most) && high == 0 && len(steps)-1 > low {
				high = len(steps) - 1
			}
		}
	}
	axis := &logAxis{low: math.Log10(steps[low]), high: math.Log10(steps[high])}
	every := 1
	if high-low > 7 {
		every = 3 // whole decades only
	}
	for i := low; i <= high; i++ {
		if i%every == 0 {
			axis.Ticks = append(axis.Ticks, tick{axis.At(int64(steps[i])), label(int64(steps[i]))})
		}
	}
	return axis
}

// At returns the place of a value on the axis.
func (a *logAxis) At(value int64) float64 {
	return (math.Log10(float64(max(value, 1))) - a.low) / (a.high - a.low)
}

// Time returns the ticks of an axis of time from 0 to length, at most that many.
func timeAxis(length time.Duration, most int) []tick {
	steps := []time.Duration{time.Millisecond}
	for _, unit := range []time.Duration{time.Millisecond, 10 * time.Millisecond, 100 * time.Millisecond} {
		steps = append(steps, unit, 2*unit, 5*unit)
	}
	for _, unit := range []time.Duration{time.Second, time.Minute} {
		steps = append(steps, unit, 2*unit, 5*unit, 10*unit, 15*unit, 30*unit)
	}
	day := 24 * time.Hour
	steps = append(steps, time.Hour, 2*time.Hour, 3*time.Hour, 6*time.Hour, 12*time.Hour)
	steps = append(steps, day, 2*day, 7*day, 14*day, 30*day, 90*day, 365*day)
	step := steps[len(steps)-1]
	for _, candidate := range steps {
		if length/candidate < time.Duration(most) {
			step = candidate
			break
		}
	}
	var ticks []tick
	for at := time.Duration(0); at <= length && len(ticks) <= 2*most; at += step {
		label := "0"
		if at > 0 {
			label = output.Duration(at)
		}
		ticks = append(ticks, tick{float64(at) / float64(max(length, 1)), label})
	}
	return ticks
}

// throughputChart draws what became of requests over time; legend is the outcomes
// that there are.
func throughputChart(r *Run, kind Kind, top float64) (drawn template.HTML, legend []string) {
	columns := columnsOf(r, mostColumns)
	if len(columns) == 0 {
		return "", nil
	}
	p := &plot{Label: "Requests over time, by what became of them, of " + r.Title(), YUnit: "requests per second",
		XUnit: "time since the start", Xs: timeAxis(time.Duration(len(columns))*columns[0].width, 6)}
	if kind == Simulation {
		p.YUnit = "requests per " + output.Duration(columns[0].width)
	}
	axis, ticks := linearAxis(top, 5)
	p.Ys = ticks
	width := 1 / float64(len(columns))
	below := make([]float64, len(columns))
	var warming path
	for i := range columns {
		if columns[i].warmup {
			warming.Box(float64(i)*width, 0, float64(i+1)*width, 1)
		}
	}
	if p.Add(warmUp, &warming); !warming.IsEmpty() {
		legend = append(legend, warmUp)
	}
	for _, outcome := range outcomes {
		var layer path
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
func (c *column) rate(kind Kind, n int64) float64 {
	if kind == Simulation {
		return float64(n)
	}
	return float64(n) / c.covers.Seconds()
}

// highest is the top of the run's throughput chart.
func highest(r *Run, kind Kind) float64 {
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
	from := fromMS(c.OffsetMS)
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
func curveChart(d *Document) template.HTML {
	all := make([][]curvePoint, len(d.Runs))
	least, most, last := int64(math.MaxInt64), int64(0), 0.0
	for i := range d.Runs {
		if h := d.Runs[i].Histograms; h != nil {
			all[i] = curveOf(h.Latency.Histogram)
		}
		for _, c := range all[i] {
			least, most, last = min(least, c.value), max(most, c.value), math.Max(last, c.nines)
		}
	}
	if last == 0 {
		return ""
	}
	axis := newLogAxis(least, most, output.Micros)
	p := &plot{Label: "Latency by percentile", YUnit: "latency, log scale", XUnit: "percentile, each step ten times rarer",
		Ys: axis.Ticks}
	for _, t := range []struct {
		nines float64
		label string
	}{{math.Log10(2), "50"}, {1, "90"}, {2, "99"}, {3, "99.9"}, {4, "99.99"}, {5, "99.999"}, {6, "99.9999"}} {
		if t.nines <= last {
			p.Xs = append(p.Xs, tick{At: t.nines / last, Label: t.label})
		}
	}
	for i, curve := range all {
		var path path
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

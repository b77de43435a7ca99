package report

import (
	"cmp"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/loadgen"
)

// plot is a chart. Its area stretches to the width of the page, while its labels, which are next to it, stay as large
// as the page's text. So one drawing is readable on a phone and on paper. Places in it are from 0 to 1, y upwards.
type plot struct {
	Label        string // what it shows, for those who do not see it
	YUnit, XUnit string
	Ys, Xs       []tick
	Grid         string // the path of the lines behind it
	Shapes       []shape
}

// shape is a path whose class says what it looks like.
type shape struct{ Class, Path string }

// tick is a place on an axis.
type tick struct {
	At    float64 // from 0 to 1
	Label string
}

// Percent is the place for a style, and Class has a label at an edge lie within it.
func (t tick) Percent() string { return output.Decimals(100*t.At, 2) }

func (t tick) Class() string {
	switch {
	case t.At < 0.03:
		return "first"
	case t.At > 0.95:
		return "last"
	}
	return ""
}

// extent is the side of the square that plots are drawn on.
const extent = 1000

// coordinate writes a place from 0 to 1 on the square, as short as can be.
func coordinate(f float64) string { return output.Decimals(math.Min(math.Max(f, 0), 1)*extent, 0) }

// withGrid returns the plot with a line at each tick.
func (p *plot) withGrid() *plot {
	for _, y := range p.Ys {
		p.Grid += fmt.Sprintf("M0 %sH%d", coordinate(1-y.At), extent)
	}
	for _, x := range p.Xs {
		p.Grid += fmt.Sprintf("M%s 0V%d", coordinate(x.At), extent)
	}
	return p
}

// linearAxis returns an axis from 0 to at least top with about five ticks: the value at its end, and the ticks.
func linearAxis(top float64) (end float64, ticks []tick) {
	const about = 5
	if top <= 0 {
		top = 1
	}
	step := math.Pow(10, math.Floor(math.Log10(top/about)))
	for _, factor := range []float64{2, 2.5, 2} { // 2, 5, 10
		if top/step > about {
			step *= factor
		}
	}
	steps := math.Ceil(top/step - 1e-9)
	for i := 0.0; i <= steps; i++ {
		ticks = append(ticks, tick{i / steps, short(i * step)})
	}
	return steps * step, ticks
}

// short writes a figure for an axis: "500", "1.5k", "2M".
func short(f float64) string {
	unit := ""
	for _, next := range []string{"k", "M", "G"} {
		if f >= 1000 {
			f, unit = f/1000, next
		}
	}
	return output.Decimals(f, 3) + unit
}

// logAxis returns a logarithmic axis of microseconds, whose ends are whole decades: the place of a value, and the
// ticks.
func logAxis(least, most int64) (at func(us int64) float64, ticks []tick) {
	low := math.Floor(math.Log10(float64(max(least, 1))))
	high := max(math.Ceil(math.Log10(float64(max(most, 1)))), low+1)
	at = func(us int64) float64 { return (math.Log10(float64(max(us, 1))) - low) / (high - low) }
	for decade := low; decade <= high; decade++ {
		value := int64(math.Pow(10, decade))
		ticks = append(ticks, tick{at(value), output.Micros(value)})
	}
	return at, ticks
}

// timeAxis returns the ticks of an axis of time from 0 to length, and their unit.
func timeAxis(length time.Duration) (ticks []tick, unit string) {
	in := time.Millisecond
	unit = "ms"
	for _, larger := range []struct {
		in   time.Duration
		name string
	}{{time.Second, "s"}, {time.Minute, "minutes"}, {time.Hour, "hours"}, {24 * time.Hour, "days"}} {
		if length >= 2*larger.in {
			in, unit = larger.in, larger.name
		}
	}
	whole := float64(max(length, 1)) / float64(in)
	end, all := linearAxis(whole)
	for _, t := range all {
		if t.At *= end / whole; t.At <= 1 {
			ticks = append(ticks, t)
		}
	}
	return ticks, unit
}

// column is one part of a timeline, whose counts are summed up over its intervals.
type column struct {
	loadgen.Interval
	width time.Duration
	// covers is how much of the width has intervals: less in the last column, where
	// they do not come out even.
	covers time.Duration
	// warmup: it is of the warm-up, in which answers are only audited.
	warmup bool
}

// columnsOf merges a timeline into at most that many columns.
func columnsOf(r *Run, most int) []column {
	if len(r.Timeline) == 0 {
		return nil
	}
	width := max(r.IntervalMS, 1)
	slots := r.Timeline[len(r.Timeline)-1].OffsetMS/width + 1
	together := (slots + int64(most) - 1) / int64(most)
	columns := make([]column, (slots+together-1)/together)
	for i := range columns {
		columns[i].OffsetMS = int64(i) * together * width
		columns[i].width = fromMS(together * width)
		columns[i].covers = fromMS(min(together, slots-int64(i)*together) * width)
	}
	for _, interval := range r.Timeline {
		c := &columns[min(max(interval.OffsetMS, 0)/width/together, int64(len(columns)-1))]
		c.Add(&interval)
	}
	for i := range columns {
		c := &columns[i]
		c.warmup = c.OffsetMS+c.width.Milliseconds()/2 < r.WarmupMS && c.Allowed+c.Denied+c.Errors+c.Dropped == 0
	}
	return columns
}

// rate is a count of the column in a second, or of a simulation as it is.
func (c *column) rate(kind Kind, n int64) float64 {
	if kind == Simulation {
		return float64(n)
	}
	return float64(n) / c.covers.Seconds()
}

// outcomes are the layers of the chart over time, from the bottom up.
var outcomes = []struct {
	name string
	of   func(*column) int64
}{
	{"allowed", func(c *column) int64 { return c.Allowed }},
	{"denied", func(c *column) int64 { return c.Denied }},
	{"failed", func(c *column) int64 { return c.Errors }},
	{"dropped", func(c *column) int64 { return c.Dropped }},
}

// warmUp is what a chart calls the warm-up.
const warmUp = "warm-up"

// overTime draws what became of requests over time, and what the limit lets through in the long run as a line; nil if
// nothing is known. The legend is in the order of the shapes.
func overTime(r *Run, kind Kind, most int) *plot {
	columns := columnsOf(r, most)
	if len(columns) == 0 {
		return nil
	}
	p := &plot{Label: "Requests over time, by what became of them, of " + output.Escape(r.Title()),
		YUnit: "requests per second",
	}
	p.Xs, p.XUnit = timeAxis(time.Duration(len(columns)) * columns[0].width)
	p.XUnit = "time since the start, in " + p.XUnit
	if kind == Simulation {
		p.YUnit = "requests per " + output.Duration(columns[0].width)
	}
	sums, layers, top := make([]float64, len(columns)), make([][]float64, len(outcomes)), 0.0
	var warming strings.Builder
	x := func(i int) string { return coordinate(float64(i) / float64(len(columns))) }
	for i := range columns {
		c := &columns[i]
		for j, outcome := range outcomes {
			sums[i] += c.rate(kind, outcome.of(c))
			layers[j] = append(layers[j], sums[i])
		}
		top = math.Max(top, sums[i])
		if c.warmup {
			fmt.Fprintf(&warming, "M%s 0H%sV%dH%sz", x(i), x(i+1), extent, x(i))
		}
	}
	limit := r.longRun()
	if kind == Simulation || limit > 2*top { // far above all that was asked for
		limit = 0
	}
	end, ticks := linearAxis(math.Max(top, limit))
	p.Ys = ticks
	if warming.Len() > 0 {
		p.Shapes = append(p.Shapes, shape{warmUp, warming.String()})
	}
	for j := len(outcomes) - 1; j >= 0; j-- { // each covers the rest of those above it
		var path strings.Builder
		fmt.Fprintf(&path, "M0 %d", extent)
		here := false
		for i, sum := range layers[j] {
			fmt.Fprintf(&path, "V%sH%s", coordinate(1-sum/end), x(i+1))
			here = here || j == 0 && sum > 0 || j > 0 && sum > layers[j-1][i]
		}
		if here {
			p.Shapes = append(p.Shapes, shape{outcomes[j].name, path.String() + fmt.Sprintf("V%dz", extent)})
		}
	}
	if limit > 0 {
		p.Shapes = append(p.Shapes, shape{"limit", fmt.Sprintf("M0 %sH%d", coordinate(1-limit/end), extent)})
	}
	return p.withGrid()
}

// longRun is how many requests a second the only limit of a run lets all its keys make in the long run; 0 if that is
// not known, or if the run was shorter than two periods of the limit.
func (r *Run) longRun() float64 {
	if len(r.Limits) != 1 || r.WarmupMS == 0 && r.Limits[0].Admitted != float64(r.Allowed) { // not each request costs 1
		return 0
	}
	limit, err := store.ParseLimit(r.Limits[0].Limit)
	if err != nil || fromMS(r.DurationMS) < 2*limit.Period {
		return 0
	}
	return float64(r.Keys) * float64(limit.Count) / limit.Period.Seconds()
}

// latencies draws the latency of a run by percentile; nil if nothing was measured.
func latencies(r *Run) *plot {
	q := r.Latency
	if q == nil || q.Max == 0 {
		return nil
	}
	at, ticks := logAxis(q.P50, q.Max)
	p := &plot{Label: "Latency by percentile", YUnit: "latency, log scale", XUnit: "percentile", Ys: ticks}
	path, to := "", "M"
	for _, f := range timeFigures {
		if f.name == "mean" {
			continue
		}
		x := float64(len(p.Xs)) / float64(len(timeFigures)-2)
		p.Xs = append(p.Xs, tick{x, cmp.Or(f.title, "p99.99")})
		path += to + coordinate(x) + " " + coordinate(1-at(f.of(q)))
		to = "L"
	}
	p.Shapes = []shape{{"line", path}}
	return p.withGrid()
}

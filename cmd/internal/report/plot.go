package report

import (
	"fmt"
	"html"
	"html/template"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/output"
)

// plot is a chart under construction. Its area stretches to whatever width the page
// has, while its labels, which are beside it, stay as large as the page's text: so one
// drawing is readable on a phone and on paper. Positions are from 0 to 1, y upwards.
type plot struct {
	label  string // what it shows, for those who do not see it
	yUnit  string
	xUnit  string
	xs, ys []tick
	shapes strings.Builder
}

// tick is a place on an axis.
type tick struct {
	at    float64
	label string
}

// extent is the side of the square that plots are drawn on.
const extent = 1000

// coordinate writes a place from 0 to 1 on the square, as short as can be.
func coordinate(f float64) string { return trimmed(math.Min(math.Max(f, 0), 1)*extent, 1) }

func point(x, y float64) string { return coordinate(x) + " " + coordinate(1-y) }

// path adds a line or an area; class is what it looks like.
func (p *plot) path(class, d string) {
	if d != "" {
		fmt.Fprintf(&p.shapes, `<path class="%s" d="%s"/>`, class, d)
	}
}

// hint adds what is said of a part of the area when somebody points at it.
func (p *plot) hint(x, width float64, text string) {
	fmt.Fprintf(&p.shapes, `<rect class="hint" x="%s" y="0" width="%s" height="%d"><title>%s</title></rect>`,
		coordinate(x), coordinate(width), extent, html.EscapeString(text))
}

// HTML is the finished chart. It is made of numbers, and of texts that are escaped.
func (p *plot) HTML() template.HTML {
	var b strings.Builder
	fmt.Fprintf(&b, `<div class="plot" role="img" aria-label="%s"><div class="yunit">%s</div><div class="ys">`, html.EscapeString(output.Escape(p.label)), html.EscapeString(p.yUnit))
	var grid strings.Builder
	for _, y := range p.ys {
		fmt.Fprintf(&b, `<span style="bottom:%s%%">%s</span>`, trimmed(100*y.at, 2), html.EscapeString(y.label))
		grid.WriteString("M0 " + coordinate(1-y.at) + "H" + strconv.Itoa(extent))
	}
	for _, x := range p.xs {
		grid.WriteString("M" + coordinate(x.at) + " 0V" + strconv.Itoa(extent))
	}
	fmt.Fprintf(&b, `</div><svg viewBox="0 0 %d %d" preserveAspectRatio="none"><path class="grid" d="%s"/>%s</svg><div class="xs">`, extent, extent, grid.String(), p.shapes.String())
	for _, x := range p.xs {
		class := ""
		switch {
		case x.at < 0.03:
			class = ` class="first"`
		case x.at > 0.95:
			class = ` class="last"`
		}
		fmt.Fprintf(&b, `<span%s style="left:%s%%">%s</span>`, class, trimmed(100*x.at, 2), html.EscapeString(x.label))
	}
	fmt.Fprintf(&b, `</div><div class="xunit">%s</div></div>`, html.EscapeString(p.xUnit))
	return template.HTML(b.String())
}

// linear is an axis from 0 to at least top, with about so many ticks.
func linear(top float64, about int) (axis float64, ticks []tick) {
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
			return trimmed(f/unit.of, 2) + unit.name
		}
	}
	return trimmed(f, 3)
}

// logarithmic is an axis for times in µs that holds all from least to most.
type logarithmic struct {
	low, high float64 // log10
	ticks     []tick
}

func newLogarithmic(least, most int64) *logarithmic {
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
	axis := &logarithmic{low: math.Log10(steps[low]), high: math.Log10(steps[high])}
	every := 1
	if high-low > 7 {
		every = 3 // whole decades only
	}
	for i := low; i <= high; i++ {
		if i%every == 0 {
			axis.ticks = append(axis.ticks, tick{axis.at(int64(steps[i])), micros(int64(steps[i]))})
		}
	}
	return axis
}

func (a *logarithmic) at(us int64) float64 {
	return (math.Log10(float64(max(us, 1))) - a.low) / (a.high - a.low)
}

// clock is an axis of time from 0 to length, with at most so many ticks.
func clock(length time.Duration, most int) []tick {
	steps := []time.Duration{time.Millisecond}
	for _, unit := range []time.Duration{time.Millisecond, 10 * time.Millisecond, 100 * time.Millisecond} {
		steps = append(steps, unit, 2*unit, 5*unit)
	}
	for _, unit := range []time.Duration{time.Second, time.Minute} {
		steps = append(steps, unit, 2*unit, 5*unit, 10*unit, 15*unit, 30*unit)
	}
	day := 24 * time.Hour
	steps = append(steps, time.Hour, 2*time.Hour, 3*time.Hour, 6*time.Hour, 12*time.Hour, day, 2*day, 7*day, 14*day, 30*day, 90*day, 365*day)
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

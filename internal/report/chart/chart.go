// Package chart draws charts as HTML with SVG in it, which need no script and no network.
// It knows nothing of what they show.
package chart

import (
	"fmt"
	"html"
	"html/template"
	"math"
	"strconv"
	"strings"

	"github.com/limitctl/limitctl/internal/output"
)

// Plot is a chart under construction. Its area stretches to the width of the page, while
// its labels, which are next to it, stay as large as the page's text. So one drawing is
// readable on a phone and on paper. Places in it are from 0 to 1, y upwards.
type Plot struct {
	Label        string // what it shows, for those who do not see it
	YUnit, XUnit string
	Ys, Xs       []Tick

	shapes strings.Builder
}

// Tick is a place on an axis.
type Tick struct {
	At    float64 // from 0 to 1
	Label string
}

// extent is the side of the square that plots are drawn on.
const extent = 1000

// coordinate writes a place from 0 to 1 on the square, as short as can be.
func coordinate(f float64) string { return output.Decimals(math.Min(math.Max(f, 0), 1)*extent, 1) }

// Path is a line or an area under construction.
type Path struct{ d strings.Builder }

// MoveTo begins a new part of the path.
func (p *Path) MoveTo(x, y float64) { p.d.WriteString("M" + point(x, y)) }

// LineTo draws a line from where the path is.
func (p *Path) LineTo(x, y float64) { p.d.WriteString("L" + point(x, y)) }

// Box draws a box from one corner to the opposite one.
func (p *Path) Box(x, y, toX, toY float64) {
	fmt.Fprintf(&p.d, "M%sH%sV%sH%sz", point(x, y), coordinate(toX), coordinate(1-toY), coordinate(x))
}

// IsEmpty reports whether nothing was drawn.
func (p *Path) IsEmpty() bool { return p.d.Len() == 0 }

func point(x, y float64) string { return coordinate(x) + " " + coordinate(1-y) }

// Add adds a path. Its class says what it looks like.
func (p *Plot) Add(class string, path *Path) {
	if !path.IsEmpty() {
		fmt.Fprintf(&p.shapes, `<path class="%s" d="%s"/>`, class, path.d.String())
	}
}

// Hint adds a text that is shown when somebody points at a part of the area.
func (p *Plot) Hint(x, width float64, text string) {
	fmt.Fprintf(&p.shapes, `<rect class="hint" x="%s" y="0" width="%s" height="%d"><title>%s</title></rect>`,
		coordinate(x), coordinate(width), extent, html.EscapeString(text))
}

// HTML returns the finished chart. It consists of numbers and of texts that are escaped.
func (p *Plot) HTML() template.HTML {
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

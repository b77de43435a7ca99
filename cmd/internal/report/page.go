package report

import (
	"bytes"
	_ "embed" // for the template
	"html/template"
	"io"
	"math"
	"strings"
	"sync"

	"github.com/limitctl/limitctl/cmd/internal/output"
)

//go:embed page.gohtml
var pageText string

// pageTemplate is parsed when it is first used, since only few commands make a page.
var pageTemplate = sync.OnceValue(func() *template.Template { return template.Must(template.New("page").Parse(pageText)) })

// HTML writes the document as one page that needs nothing else, neither a network
// nor a script. Percentile curves are exact if the runs have their histograms.
func (d *Document) HTML(w io.Writer) error {
	var b bytes.Buffer // so that no half of a page is written
	if err := pageTemplate().Execute(&b, d.page()); err != nil {
		return err
	}
	_, err := w.Write(b.Bytes())
	return err
}

// page is what the template shows. All names in it are printable and of a length
// that a page can bear.
type page struct {
	Title, Subtitle string
	Interrupted     bool
	Facts           []fact
	Alarms          []pageFinding
	Cards           []card
	Thresholds      []pageThreshold
	Suggestions     []pageFinding
	Missed          int
	Several         bool
	Simulation      bool
	Comparison      pageTable
	Worst           []bar
	WorstLine       float64 // where 1.00 × is, in percent
	Curve           template.HTML
	CurveExact      bool
	Runs            []pageRun
	Legend          []string // of the throughput charts
	OverTime        bool
	HeatSteps       []heatCell
	HasHeat         bool
	HasMostDenied   bool
	Cost            pageTable
	Colors          []int
}

// fact is a line of what was run.
type fact struct{ Name, Value string }

// pageFinding is a [finding], with the run that it is about if there are several.
type pageFinding struct{ Class, Mark, Run, Text string }

// card answers one question for all runs.
type card struct {
	Question string
	Answers  []cardAnswer
}

type cardAnswer struct {
	pageFinding
	Color  int
	Figure string
	Small  string
}

type pageThreshold struct {
	OK                      bool
	Expression, Actual, Run string
}

type pageTable struct {
	Header []string
	Rows   [][]pageCell
}

type pageCell struct {
	Text, Class string
	Right       bool
}

// bar is a worst window.
type bar struct {
	Run, Text, Class string
	Width            float64 // in percent
}

type pageRun struct {
	Title               string
	Color               int
	Throughput, Latency template.HTML
	Coarse              bool // columns are several intervals
	Heat                []heatCell
	HeatGroups          string
	MostDenied          []deniedKey
	Limits              pageTable
	Deciders            pageTable // if not all was decided by the store
	Wrapped             []string  // what wrappers around the store saved and cost
}

// heatCell is a group of keys in the heat strip.
type heatCell struct {
	Left, Width float64 // in percent
	Opacity     float64
	Text        string
}

type deniedKey struct {
	Key, Denied, Allowed, Share string
	Percent                     float64
}

// name makes a text of others fit to be shown: nothing invisible in it, and no
// longer than one reads.
func name(text string) string {
	const longest = 90
	return output.Cut(output.Printable(text), longest)
}

func (f finding) onPage(run string) pageFinding {
	classes := map[output.Style]string{output.Calm: "good", output.Near: "near", output.AtEnd: "bad"}
	return pageFinding{Class: classes[f.style], Mark: f.mark(), Run: run, Text: output.Cut(output.Escape(f.text), 400)}
}

func (d *Document) page() *page {
	p := &page{
		Title: "Load test", Interrupted: d.Interrupted, Several: len(d.Runs) > 1, Simulation: d.Kind == Simulation,
	}
	if p.Simulation {
		p.Title = "Simulation"
	}
	for i := range colors {
		p.Colors = append(p.Colors, i)
	}
	titles := make([]string, len(d.Runs))
	for i := range d.Runs {
		titles[i] = name(d.Runs[i].Title())
	}
	p.Subtitle = strings.Join(titles, " · ")
	p.describe(d)
	p.judge(d, titles)
	if p.Several {
		p.Comparison = pageTableOf(d.comparison())
	}
	p.worstWindows(d, titles)
	p.Curve, p.CurveExact = d.curveChart()
	p.overTime(d, titles)
	p.keys(d)
	p.cost(d, titles)
	return p
}

func pageTableOf(columns []output.Column, rows [][]output.Cell) pageTable {
	var table pageTable
	for _, column := range columns {
		table.Header = append(table.Header, strings.ToLower(column.Header))
	}
	for _, row := range rows {
		cells := make([]pageCell, len(row))
		for i, cell := range row {
			cells[i] = pageCell{Text: name(cell.Text), Right: columns[i].Right}
			switch cell.Style {
			case output.AtEnd:
				cells[i].Class = "bad"
			case output.Near:
				cells[i].Class = "near"
			default: // as any text
			}
		}
		table.Rows = append(table.Rows, cells)
	}
	return table
}

func rounded(f float64) float64 { return math.Round(f*100) / 100 }

package report

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strings"
	"sync"

	"github.com/limitctl/limitctl/internal/output"
)

//go:embed page.gohtml
var pageText string

// pageTemplate is parsed when it is first used, since only few commands make a page.
var pageTemplate = sync.OnceValue(func() *template.Template { return template.Must(template.New("page").Parse(pageText)) })

// HTML writes the document as one page that needs nothing else, neither a network
// nor a script. It has a curve of latencies if the runs have their histograms.
func (a Answer) HTML(w io.Writer) error {
	var b bytes.Buffer // so that no half of a page is written
	if err := pageTemplate().Execute(&b, newPage(a.Report)); err != nil {
		return err
	}
	_, err := w.Write(b.Bytes())
	return err
}

// page is what the template shows. All names in it are printable and of a length
// that a page can bear.
type page struct {
	Title, Subtitle       string
	Verdict, VerdictClass string
	Reasons               []string
	Interrupted, Several  bool
	Facts                 []fact
	Warnings              []pageFinding
	Promises              []pageFinding // thresholds and suggestions
	Outcomes              []string      // that the charts over time have
	Runs                  []pageRun
	Curve                 template.HTML
	Tables                []pageTable
	Colors                []int
}

// pageFinding is a [finding].
type pageFinding struct{ Class, Mark, Run, Text string }

// pageRun is a run in the legends, its chart over time, and its figures.
type pageRun struct {
	Title, Key string
	Chart      template.HTML
	Facts      []fact // of one of several
}

type pageTable struct {
	Title, Run string
	Header     []pageCell
	Rows       [][]pageCell
}

type pageCell struct {
	Text, Class string
	Right       bool
}

var pageClasses = map[output.Style]string{output.Calm: "good", output.Near: "near", output.AtEnd: "bad"}

func (f finding) onPage() pageFinding {
	return pageFinding{Class: pageClasses[f.style], Mark: f.mark(), Run: shortName(f.run), Text: output.Cut(output.Escape(f.text), 400)}
}

func newPage(d *Document) *page {
	p := &page{Interrupted: d.Interrupted, Several: len(d.Runs) > 1, Facts: facts(d)}
	p.Title = map[Kind]string{LoadTest: "Load test", Simulation: "Simulation"}[d.Kind]
	titles := make([]string, len(d.Runs))
	for i := range d.Runs {
		titles[i] = shortName(d.Runs[i].Title())
	}
	for i := range colors {
		p.Colors = append(p.Colors, i)
	}
	p.Subtitle = strings.Join(titles, " · ")
	word, style, reasons := d.headline()
	p.Verdict, p.VerdictClass = word, pageClasses[style]
	for _, reason := range shortened(reasons, mostReasons) {
		p.Reasons = append(p.Reasons, output.Cut(output.Printable(reason), longestFact))
	}
	for _, f := range alarms(d) {
		p.Warnings = append(p.Warnings, f.onPage())
	}
	for _, f := range promises(d) {
		p.Promises = append(p.Promises, f.onPage())
	}
	p.charts(d, titles)
	if len(d.Runs) > 0 {
		p.tables(d, titles)
	}
	return p
}

// charts draws the runs over time, to one scale, and their latencies.
func (p *page) charts(d *Document, titles []string) {
	top := 0.0
	for i := range d.Runs {
		top = max(top, highest(&d.Runs[i], d.Kind))
	}
	present := map[string]bool{}
	for i := range d.Runs {
		drawn, legend := throughputChart(&d.Runs[i], d.Kind, top)
		for _, outcome := range legend {
			present[outcome] = true
		}
		run := pageRun{Title: titles[i], Key: fmt.Sprintf("run%d", i%colors), Chart: drawn}
		if p.Several {
			run.Facts = figuresOf(&d.Runs[i], d.Kind)
		}
		p.Runs = append(p.Runs, run)
	}
	for _, outcome := range outcomes {
		if present[outcome.name] {
			p.Outcomes = append(p.Outcomes, outcome.name)
		}
	}
	if present[warmUp] {
		p.Outcomes = append(p.Outcomes, warmUp)
	}
	p.Curve = curveChart(d)
}

// tables fills in the tables: those of all runs, and those of each.
func (p *page) tables(d *Document, titles []string) {
	add := func(title, run string, columns []output.Column, rows [][]output.Cell) {
		if len(rows) > 0 {
			p.Tables = append(p.Tables, pageTableOf(title, run, columns, rows))
		}
	}
	columns, rows := comparison(d)
	add("The runs", "", columns, rows)
	for i := range d.Runs {
		r, of := &d.Runs[i], ""
		if p.Several {
			of = titles[i]
		}
		columns, rows = timesTable(r)
		add("Times", of, columns, rows)
		if len(r.Limits) > 1 {
			columns, rows = limitsTable(r)
			add("Each limit", of, columns, rows)
		}
		columns, rows = mostDeniedTable(r.MostDenied)
		add("Denied most often", of, columns, rows)
	}
}

func pageTableOf(title, run string, columns []output.Column, rows [][]output.Cell) pageTable {
	table := pageTable{Title: title, Run: run}
	for _, column := range columns {
		table.Header = append(table.Header, pageCell{Text: shortName(strings.ToLower(column.Header)), Right: column.Right})
	}
	for _, row := range rows {
		cells := make([]pageCell, len(row))
		for i, cell := range row {
			cells[i] = pageCell{shortName(strings.TrimSpace(cell.Text)), pageClasses[cell.Style], columns[i].Right}
			if cell.Style == output.Calm || cell.Style == output.Plain {
				cells[i].Class = ""
			}
		}
		table.Rows = append(table.Rows, cells)
	}
	return table
}

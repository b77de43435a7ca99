package report

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"maps"
	"slices"
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

// pageFinding is a [finding], with the run that it is about if there are several.
type pageFinding struct{ Class, Mark, Run, Text string }

// pageRun is a run in the legends, and its chart over time.
type pageRun struct {
	Title, Key string
	Chart      template.HTML
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

func (f finding) onPage(run string) pageFinding {
	return pageFinding{Class: pageClasses[f.style], Mark: f.mark(), Run: run, Text: output.Cut(output.Escape(f.text), 400)}
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
	reasons, style := ruling(d)
	p.Verdict, p.VerdictClass = strings.ToUpper(string(d.Verdict)), pageClasses[style]
	for _, reason := range shortened(reasons) {
		p.Reasons = append(p.Reasons, output.Cut(output.Printable(reason), longestFact))
	}
	warnings, about := alarmsOf(d)
	for i, warning := range warnings {
		p.Warnings = append(p.Warnings, warning.onPage(shortName(about[i])))
	}
	for _, t := range missedFirst(d) {
		of := ""
		if p.Several {
			of = titles[t.Run]
		}
		p.Promises = append(p.Promises, findingOfThreshold(&t).onPage(of))
	}
	for i := range d.Suggestions {
		p.Promises = append(p.Promises, findingOf(&d.Suggestions[i]).onPage(""))
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
		p.Runs = append(p.Runs, pageRun{titles[i], fmt.Sprintf("run%d", i%colors), drawn})
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
	columns, rows := withoutSparklines(comparison(d))
	add("The runs", "", columns, rows)
	columns, rows = requestsTable(d, titles)
	add("Requests", "", columns, rows)
	columns, rows = costTable(d, titles)
	add("Cost of a decision", "", columns, rows)
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
		columns, rows = mostDeniedTable(r)
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

// ofRuns are the columns of a table with a figure in each row and a run in each column.
func ofRuns(titles []string) []output.Column {
	columns := []output.Column{{}}
	for _, title := range titles {
		columns = append(columns, output.Column{Header: title, Right: true})
	}
	return columns
}

// requestsTable has what became of the requests, of the outcomes that any run has.
func requestsTable(d *Document, titles []string) ([]output.Column, [][]output.Cell) {
	var rows [][]output.Cell
	add := func(name string, always, share bool, of func(*Run) int64) {
		row, any := []output.Cell{{Text: name}}, always
		for i := range d.Runs {
			r := &d.Runs[i]
			n := of(r)
			any = any || n > 0
			text := output.Thousands(n)
			if share && n > 0 {
				text += " (" + output.Share(n, r.Planned()) + ")"
			}
			row = append(row, output.Cell{Text: text})
		}
		if any {
			rows = append(rows, row)
		}
	}
	add("Requests", true, false, func(r *Run) int64 { return r.Planned() })
	add("Allowed", true, true, func(r *Run) int64 { return r.Allowed })
	add("Denied", true, true, func(r *Run) int64 { return r.Denied })
	add("Failed", d.Kind == LoadTest, true, func(r *Run) int64 { return r.Errors })
	add("Failed: timed out", false, true, func(r *Run) int64 { return r.TimedOut })
	add("Dropped before they were sent", false, true, func(r *Run) int64 { return r.Dropped })
	statuses := map[string]bool{} // their counts have the warm-up, too
	for i := range d.Runs {
		for status := range d.Runs[i].Statuses {
			statuses[status] = true
		}
	}
	for _, status := range slices.Sorted(maps.Keys(statuses)) {
		add("Answers "+statusInWords(status), false, false, func(r *Run) int64 { return r.Statuses[status] })
	}
	return ofRuns(titles), rows
}

// costTable has the costs that any run knows.
func costTable(d *Document, titles []string) ([]output.Column, [][]output.Cell) {
	var rows [][]output.Cell
	for _, cost := range Costs {
		row, any := []output.Cell{{Text: cost.Title}}, false
		for i := range d.Runs {
			var figure *float64
			if d.Runs[i].Cost != nil {
				figure = cost.Of(d.Runs[i].Cost)
			}
			any = any || figure != nil
			row = append(row, output.Cell{Text: known(figure)})
		}
		if any {
			rows = append(rows, row)
		}
	}
	return ofRuns(titles), rows
}

package report

import (
	"bytes"
	_ "embed"
	"html/template"
	"strings"
	"sync"

	"github.com/limitctl/limitctl/internal/output"
)

//go:embed page.gohtml
var pageText string

// pageTemplate is parsed when it is first used, since only few commands make a page.
var pageTemplate = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("page").Funcs(template.FuncMap{
		"short": shortName,
		"lower": strings.ToLower,
		"class": func(style output.Style) string { return pageClasses[style] },
	}).Parse(pageText))
})

// HTML returns the document as one page that needs nothing else, neither a network nor a script.
func (a Answer) HTML() ([]byte, error) {
	var b bytes.Buffer
	err := pageTemplate().Execute(&b, newPage(a.Report))
	return b.Bytes(), err
}

// page is what the template shows. All names in it are printable and of a length
// that a page can bear.
type page struct {
	Title, Subtitle       string
	Verdict, VerdictClass string
	Reasons               []string
	Several               bool
	Findings              []finding // what became of promises, and the warnings
	Outcomes              []string  // that the charts over time have
	Runs                  []pageRun
	Latencies             *plot
	Tables                []pageTable
	Facts                 []fact
}

// pageRun is a run and its chart over time.
type pageRun struct {
	Title    string
	OverTime *plot
}

type pageTable struct {
	Title, Run string
	Columns    []output.Column
	Rows       [][]output.Cell
}

var pageClasses = map[output.Style]string{output.Calm: "good", output.Near: "near", output.AtEnd: "bad"}

// Class, Mark and Text are what the page shows of a finding.
func (f finding) Class() string { return pageClasses[f.style] }
func (f finding) Text() string  { return output.Cut(output.Escape(f.text), 400) }

func newPage(d *Document) *page {
	p := &page{Several: len(d.Runs) > 1, Facts: facts(d)}
	p.Title = map[Kind]string{LoadTest: "Load test", Simulation: "Simulation"}[d.Kind]
	word, style, reasons := d.headline()
	p.Verdict, p.VerdictClass = word, pageClasses[style]
	for _, reason := range shortened(reasons, mostReasons) {
		p.Reasons = append(p.Reasons, output.Cut(output.Printable(reason), longestFact))
	}
	p.Findings = append(promises(d, true), alarms(d)...)
	most := 120 // columns of a chart
	if p.Several {
		most = 60
		columns, rows := comparison(d)
		p.table("The runs", "", columns, rows)
	} else if len(d.Runs) == 1 {
		p.Latencies = latencies(&d.Runs[0])
		columns, rows := timesTable(&d.Runs[0])
		p.table("Times", "", columns, rows)
	}
	drawn := map[string]bool{}
	var titles []string
	for i := range d.Runs {
		r := &d.Runs[i]
		run, of := pageRun{shortName(r.Title()), overTime(r, d.Kind, most)}, ""
		if p.Several {
			of = run.Title
		}
		if run.OverTime != nil {
			for _, shape := range run.OverTime.Shapes {
				drawn[shape.Class] = true
			}
		}
		p.Runs, titles = append(p.Runs, run), append(titles, run.Title)
		if columns, rows := limitsTable(r); len(rows) > 1 {
			p.table("Each limit", of, columns, rows)
		}
		columns, rows := mostDeniedTable(r.MostDenied)
		p.table("Denied most often", of, columns, rows)
	}
	p.Subtitle = strings.Join(titles, " · ")
	for _, name := range []string{"allowed", "denied", "failed", "dropped", "limit", warmUp} {
		if drawn[name] {
			p.Outcomes = append(p.Outcomes, name)
		}
	}
	return p
}

// table adds a table, if it has rows.
func (p *page) table(title, run string, columns []output.Column, rows [][]output.Cell) {
	if len(rows) > 0 {
		p.Tables = append(p.Tables, pageTable{title, run, columns, rows})
	}
}

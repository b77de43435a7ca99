package report

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/limitctl/limitctl/internal/output"
)

//go:embed page.gohtml
var pageText string

// pageTemplate is parsed when it is first used, since only few commands make a page.
var pageTemplate = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("page").Parse(pageText))
})

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
	Title, Subtitle                string
	Verdict, VerdictClass          string
	Reasons                        []string
	Interrupted, Several           bool
	Cards                          []card
	Promises, Warnings, MoreOfThem []finding
	Outcomes                       []string // that the charts over time have
	Runs                           []pageRun
	Latencies                      *plot
	Overview, Tables               []pageTable
	Facts                          []fact
	Colors                         []int
}

// card is one figure of a run.
type card struct {
	Name, Figure, Text string
	// Within and Beyond are a bar in percent, of which 50 are the limit; both are 0 for none.
	Within, Beyond float64
}

// pageRun is a run in the legends, and its chart over time.
type pageRun struct {
	Title, Key string
	OverTime   *plot
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

// Class, Mark, About and Text are what the page shows of a finding.
func (f finding) Class() string { return pageClasses[f.style] }
func (f finding) About() string { return shortName(f.run) }
func (f finding) Text() string  { return output.Cut(output.Escape(f.text), 400) }

func newPage(d *Document) *page {
	p := &page{Interrupted: d.Interrupted, Several: len(d.Runs) > 1, Facts: facts(d), Latencies: latencies(d)}
	p.Title = map[Kind]string{LoadTest: "Load test", Simulation: "Simulation"}[d.Kind]
	word, style, reasons := d.headline()
	p.Verdict, p.VerdictClass = word, pageClasses[style]
	for _, reason := range shortened(reasons, mostReasons) {
		p.Reasons = append(p.Reasons, output.Cut(output.Printable(reason), longestFact))
	}
	p.Promises, p.Warnings = promises(d, true), alarms(d)
	if most := 3; len(p.Warnings) > most+1 {
		p.Warnings, p.MoreOfThem = p.Warnings[:most], p.Warnings[most:]
	}
	for i := range colors {
		p.Colors = append(p.Colors, i)
	}
	if len(d.Runs) == 1 {
		p.Cards = cardsOf(&d.Runs[0], d.Kind)
	}
	p.Facts = slices.DeleteFunc(p.Facts, func(f fact) bool { return f.Name == "right" }) // it is on a card
	p.runs(d)
	return p
}

// cardsOf are the figures of a single run that one looks at first.
func cardsOf(r *Run, kind Kind) []card {
	worst := r.Audit.WorstRatio
	all := []card{
		{Name: "Right", Figure: output.Ratio(worst), Within: 50 * min(worst, 1), Beyond: 50 * min(max(worst-1, 0), 1),
			Text: fmt.Sprintf("of the limit in the worst window; %s over, %s under; at most %s denied in a row; "+
				"fairness %s",
				output.Count(r.Audit.Over(), "unit"), output.Thousands(r.Audit.Under()),
				output.Thousands(r.Audit.LongestDenialRun), output.Decimal(r.Audit.Fairness))},
		{Name: "Allowed", Figure: output.Share(r.Allowed, r.Requests), Text: answersInWords(r)},
	}
	if r.Latency != nil {
		all = append(all, card{Name: "Fast", Figure: micros(r, "p99") + " p99",
			Text: fmt.Sprintf("p50 %s, p95 %s; %s answered", micros(r, "p50"), micros(r, "p95"),
				output.PerSecond(r.ThroughputPerS))})
	}
	if kind == Simulation {
		all[0] = card{Name: "Denied callers", Figure: output.Thousands(r.KeysDenied),
			Text: fmt.Sprintf("of %s, at least once", output.Thousands(r.Keys))}
	}
	return all
}

// runs fills in the charts over time, the tables of all runs, and those of each.
func (p *page) runs(d *Document) {
	most := 120
	if p.Several {
		most = 60
		columns, rows := comparison(d)
		p.table("The runs", "", columns, rows)
		p.Overview, p.Tables = p.Tables, nil
	}
	present := map[string]bool{}
	var titles []string
	for i := range d.Runs {
		r := &d.Runs[i]
		run := pageRun{Title: shortName(r.Title()), Key: fmt.Sprintf("run%d", i%colors), OverTime: overTime(r, d.Kind,
			most)}
		of := ""
		if p.Several {
			of = run.Title
		}
		if run.OverTime != nil {
			for _, shape := range run.OverTime.Shapes {
				present[shape.Class] = true
			}
		}
		p.Runs, titles = append(p.Runs, run), append(titles, run.Title)
		columns, rows := timesTable(r)
		p.table("Times", of, columns, rows)
		if columns, rows = limitsTable(r); len(rows) > 1 {
			p.table("Each limit", of, columns, rows)
		}
		columns, rows = mostDeniedTable(r.MostDenied)
		p.table("Denied most often", of, columns, rows)
	}
	p.Subtitle = strings.Join(titles, " · ")
	for _, name := range []string{"allowed", "denied", "failed", "dropped", "limit", warmUp} {
		if present[name] {
			p.Outcomes = append(p.Outcomes, name)
		}
	}
}

// table adds a table, if it has rows.
func (p *page) table(title, run string, columns []output.Column, rows [][]output.Cell) {
	table := pageTable{Title: title, Run: run}
	for _, column := range columns {
		table.Header = append(table.Header, pageCell{Text: shortName(strings.ToLower(column.Header)),
			Right: column.Right})
	}
	for _, row := range rows {
		cells := make([]pageCell, len(row))
		for i, cell := range row {
			cells[i] = pageCell{shortName(cell.Text), pageClasses[cell.Style], columns[i].Right}
		}
		table.Rows = append(table.Rows, cells)
	}
	if len(rows) > 0 {
		p.Tables = append(p.Tables, table)
	}
}

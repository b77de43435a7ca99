package show

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/cmd/internal/report"
	"github.com/limitctl/limitctl/cmd/internal/report/chart"
)

//go:embed page.gohtml
var pageText string

// pageTemplate is parsed when it is first used, since only few commands make a page.
var pageTemplate = sync.OnceValue(func() *template.Template { return template.Must(template.New("page").Parse(pageText)) })

// HTML writes the document as one page that needs nothing else, neither a network
// nor a script. Percentile curves are exact if the runs have their histograms.
func (a Answer) HTML(w io.Writer) error {
	d := a.Report
	var b bytes.Buffer // so that no half of a page is written
	if err := pageTemplate().Execute(&b, newPage(d)); err != nil {
		return err
	}
	_, err := w.Write(b.Bytes())
	return err
}

// page is what the template shows. All names in it are printable and of a length
// that a page can bear.
type page struct {
	Title, Subtitle string
	Verdict         string // PASS, FAIL or INCONCLUSIVE
	VerdictClass    string
	Reasons         []string
	Interrupted     bool
	Facts           []fact
	Alarms          []pageFinding
	Cards           []card
	Thresholds      []pageThreshold
	Suggestions     []pageFinding
	Missed          int
	NotJudged       int
	Several         bool
	Simulation      bool
	Comparison      pageTable
	Worst           []bar
	WorstLine       float64 // where 1.00 × is, in percent
	Curve           template.HTML
	CurveExact      bool
	HasService      bool // the curves of the service time are drawn, too
	Runs            []pageRun
	Legend          []legendEntry // of the throughput charts
	HasEdges        bool          // windows' edges are marked
	OverTime        bool
	HeatSteps       []heatCell
	HasHeat         bool
	HasMostDenied   bool
	Cost            pageTable
	Requests        pageTable // what became of the requests
	Colors          []int
}

// pageFinding is a [finding], with the run that it is about if there are several.
type pageFinding struct{ Class, Mark, Run, Text string }

// card answers one question for all runs.
type card struct {
	Question string
	Answers  []cardAnswer
}

type cardAnswer struct {
	pageFinding
	Key    string // the run's classes
	Figure string
	Small  string
}

type pageThreshold struct {
	Class, Mark             string
	Expression, Actual, Run string
}

// legendEntry is a layer of the throughput charts: its class, and what it is.
type legendEntry struct{ Class, Text string }

type pageTable struct {
	Header []string
	Rows   [][]pageCell
}

type pageCell struct {
	Text, Class string
	Right       bool
	Picture     template.HTML // in place of the text
}

// bar is a worst window.
type bar struct {
	Run, Text, Class string
	Width            float64 // in percent
}

type pageRun struct {
	Title               string
	Key                 string // its classes in legends
	Throughput, Latency template.HTML
	Coarse              bool // columns are several intervals
	Heat                []heatCell
	HeatGroups          string
	MostDenied          []deniedKey
	Limits              pageTable
	Wrapped             []string // what wrappers around the store saved and cost
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

func (f finding) onPage(run string) pageFinding {
	classes := map[output.Style]string{output.Calm: "good", output.Near: "near", output.AtEnd: "bad"}
	return pageFinding{Class: classes[f.style], Mark: f.mark(), Run: run, Text: output.Cut(output.Escape(f.text), 400)}
}

func newPage(d *report.Document) *page {
	p := &page{
		Title: "Load test", Interrupted: d.Interrupted, Several: len(d.Runs) > 1, Simulation: d.Kind == report.Simulation,
	}
	if p.Simulation {
		p.Title = "Simulation"
	}
	for i := range colors {
		p.Colors = append(p.Colors, i)
	}
	titles := make([]string, len(d.Runs))
	for i := range d.Runs {
		titles[i] = Name(d.Runs[i].Title())
	}
	p.Subtitle = strings.Join(titles, " · ")
	p.rule(d)
	p.Facts = facts(d)
	p.judge(d, titles)
	if p.Several {
		p.Comparison = pageTableOf(comparison(d))
		p.Comparison.drawDenials(d)
	}
	p.worstWindows(d, titles)
	p.HasService = len(d.Runs) <= colors
	p.Curve, p.CurveExact = curveChart(d)
	p.overTime(d, titles)
	p.keys(d)
	p.cost(d, titles)
	p.requests(d, titles)
	return p
}

// rule says whether all is well.
func (p *page) rule(d *report.Document) {
	reasons, style := ruling(d)
	p.Verdict, p.VerdictClass = strings.ToUpper(string(d.Verdict)), string(d.Verdict)
	if style == output.Near {
		p.VerdictClass = "doubt"
	}
	for _, reason := range shortened(reasons) {
		p.Reasons = append(p.Reasons, output.Cut(output.Printable(reason), longestFact))
	}
}

// runKey is the classes of a run in legends and curves: a colour, and another shape where
// the colours come again.
func runKey(i int) string {
	key := fmt.Sprintf("run%d", i%colors)
	if again := i / colors; again > 0 {
		key += fmt.Sprintf(" again%d", min(again, 3))
	}
	return key
}

// drawDenials puts pictures into the column that a terminal draws with letters.
func (t *pageTable) drawDenials(d *report.Document) {
	at := slices.Index(t.Header, strings.ToLower(deniedOverTimeHeader))
	if at < 0 {
		return
	}
	denied, top := deniedOverTime(d)
	for i := range t.Rows {
		t.Rows[i][at].Picture = chart.Bars(denied[i], top, t.Rows[i][0].Text+": denied over time")
	}
}

func pageTableOf(columns []output.Column, rows [][]output.Cell) pageTable {
	var table pageTable
	for _, column := range columns {
		table.Header = append(table.Header, strings.ToLower(column.Header))
	}
	for _, row := range rows {
		cells := make([]pageCell, len(row))
		for i, cell := range row {
			cells[i] = pageCell{Text: Name(cell.Text), Right: columns[i].Right}
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

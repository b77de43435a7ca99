package report

import (
	"bytes"
	_ "embed" // for the template
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/limitctl/limitctl/cmd/internal/output"
)

//go:embed page.gohtml
var pageText string

var pageTemplate = template.Must(template.New("page").Parse(pageText))

// HTML writes the document as one page that needs nothing else, neither a network
// nor a script. Percentile curves are exact if the runs have their histograms.
func (d *Document) HTML(w io.Writer) error {
	var b bytes.Buffer // so that no half of a page is written
	if err := pageTemplate.Execute(&b, d.page()); err != nil {
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

// describe says what was run. What all runs have in common is said once.
func (p *page) describe(d *Document) {
	if len(d.Runs) == 0 {
		return
	}
	add := func(label string, of func(*Run) string) {
		value := of(&d.Runs[0])
		for i := range d.Runs {
			if of(&d.Runs[i]) != value {
				value = "differs between the runs"
			}
		}
		if value != "" {
			p.Facts = append(p.Facts, fact{label, name(value)})
		}
	}
	add("Load", func(r *Run) string { return r.Load })
	add("Scenario", func(r *Run) string { return r.Scenario })
	add("Store", func(r *Run) string { return r.Store })
	add("Keys", func(r *Run) string {
		if r.Keys == 0 {
			return ""
		}
		return output.Thousands(r.Keys)
	})
	add("Workers", func(r *Run) string {
		if r.Workers == 0 {
			return ""
		}
		return output.Thousands(int64(r.Workers))
	})
	add("Duration", func(r *Run) string { return output.Duration(milliseconds(r.DurationMS)) })
	first, last := d.Runs[0].StartedAt, d.Runs[len(d.Runs)-1].StartedAt
	if !first.IsZero() {
		started := first.UTC().Format("2006-01-02 15:04:05 UTC")
		if d.Kind == LoadTest && !last.Equal(first) {
			started += ", last run " + last.UTC().Format("15:04:05")
		}
		p.Facts = append(p.Facts, fact{map[Kind]string{LoadTest: "Started", Simulation: "First request"}[d.Kind], started})
	}
}

// judge answers the three questions: right, fast, cost.
func (p *page) judge(d *Document, titles []string) {
	right, fast, cost := card{Question: "Is it right?"}, card{Question: "Is it fast?"}, card{Question: "What does it cost?"}
	if p.Simulation {
		fast.Question = "Who is hurt?"
	}
	alarms, about := d.alarms()
	for i, alarm := range alarms {
		run := ""
		if p.Several {
			run = name(about[i])
		}
		p.Alarms = append(p.Alarms, alarm.onPage(run))
	}
	for i := range d.Suggestions {
		p.Suggestions = append(p.Suggestions, d.Suggestions[i].finding().onPage(""))
	}
	for i := range d.Runs {
		r := &d.Runs[i]
		run := ""
		if p.Several {
			run = titles[i]
		}
		answer := func(f finding, figure, small string) cardAnswer {
			return cardAnswer{f.onPage(run), i % colors, figure, small}
		}
		if r.Requests == 0 {
			right.Answers = append(right.Answers, answer(r.verdict(), "-", ""))
		} else {
			right.Answers = append(right.Answers, answer(r.verdict(), ratio(r.Audit.WorstWindowRatio), r.auditInWords()))
		}
		switch {
		case p.Simulation:
			fast.Answers = append(fast.Answers, answer(finding{text: fmt.Sprintf("of %s keys denied at least once", output.Thousands(r.Keys))},
				output.Thousands(r.KeysDenied), fmt.Sprintf("%s denied (%s)", requests(r.Denied), share(r.Denied, r.Requests))))
		case r.Latency == nil:
			fast.Answers = append(fast.Answers, answer(finding{text: "no latency was measured"}, "-", ""))
		default:
			fast.Answers = append(fast.Answers, answer(finding{text: "p99 latency, p50 " + micros(r.Latency.P50)}, micros(r.Latency.P99),
				fmt.Sprintf("p99.9 %s, max %s; %s answered", micros(r.Latency.P999), micros(r.Latency.Max), perSecond(r.ThroughputPerS))))
		}
		if parts := r.costParts(); len(parts) > 0 {
			cost.Answers = append(cost.Answers, answer(finding{text: parts[0].of}, parts[0].figure, joinCost(parts[1:])))
		}
	}
	p.Cards = []card{right, fast}
	if len(cost.Answers) > 0 {
		p.Cards = append(p.Cards, cost)
	}
	for _, t := range d.Thresholds {
		p.Thresholds = append(p.Thresholds, pageThreshold{t.OK, name(t.Expression), name(t.Actual), titles[t.Run]})
		if !t.OK {
			p.Missed++
		}
	}
	slices.SortStableFunc(p.Thresholds, func(a, b pageThreshold) int { return missedFirst(a.OK, b.OK) })
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
			}
		}
		table.Rows = append(table.Rows, cells)
	}
	return table
}

func (p *page) worstWindows(d *Document, titles []string) {
	top := 1.0
	for i := range d.Runs {
		top = math.Max(top, d.Runs[i].Audit.WorstWindowRatio)
	}
	top *= 1.1
	p.WorstLine = rounded(100 / top)
	for i := range d.Runs {
		a := &d.Runs[i].Audit
		if d.Runs[i].Requests == 0 {
			continue
		}
		b := bar{Run: titles[i], Text: ratio(a.WorstWindowRatio), Width: rounded(100 * math.Max(a.WorstWindowRatio, 0) / top), Class: "good"}
		switch {
		case a.WorstWindowRatio > 1 && a.OverAdmitted > 0:
			b.Class = "bad"
		case a.WorstWindowRatio > 1:
			b.Class = "over"
		}
		p.Worst = append(p.Worst, b)
	}
}

func (p *page) overTime(d *Document, titles []string) {
	axis, top := d.latencyAxis(), 0.0
	for i := range d.Runs {
		top = math.Max(top, d.Runs[i].highest(d.Kind))
	}
	present := map[string]bool{}
	for i := range d.Runs {
		r := &d.Runs[i]
		one := pageRun{Title: titles[i], Color: i % colors}
		var legend []string
		one.Throughput, legend = r.throughputChart(d.Kind, top)
		for _, outcome := range legend {
			present[outcome] = true
		}
		one.Latency = r.latencyChart(axis)
		columns := r.columnsOf(mostColumns)
		one.Coarse = len(columns) > 0 && columns[0].width > milliseconds(r.IntervalMS)
		p.OverTime = p.OverTime || one.Throughput != ""
		if len(r.Limits) > 1 {
			one.Limits = pageTableOf(limitsTable(r))
		}
		p.Runs = append(p.Runs, one)
	}
	for _, outcome := range outcomes {
		if present[outcome.name] {
			p.Legend = append(p.Legend, outcome.name)
		}
	}
}

// keys fills in who was denied: the heat strips and the keys denied most.
func (p *page) keys(d *Document) {
	for _, percent := range []float64{0, 25, 50, 75, 100} {
		p.HeatSteps = append(p.HeatSteps, heatCell{Opacity: heat(percent / 100), Text: fmt.Sprintf("%.0f%%", percent)})
	}
	for i := range d.Runs {
		r, one := &d.Runs[i], &p.Runs[i]
		width := 100 / float64(max(len(r.Heat), 1))
		before := int64(0)
		for j, g := range r.Heat {
			who := fmt.Sprintf("keys %s to %s", output.Thousands(before+1), output.Thousands(before+g.Keys))
			if g.Keys == 1 {
				who = "key " + output.Thousands(before+1)
			}
			before += g.Keys
			part := 0.0
			if asked := g.Allowed + g.Denied; asked > 0 {
				part = float64(g.Denied) / float64(asked)
			}
			one.Heat = append(one.Heat, heatCell{rounded(float64(j) * width), rounded(width + 0.05), heat(part),
				fmt.Sprintf("%s by what they asked for: %s, %s denied", who, requests(g.Allowed+g.Denied), share(g.Denied, g.Allowed+g.Denied))})
		}
		p.HasHeat = p.HasHeat || len(one.Heat) > 0
		one.HeatGroups = fmt.Sprintf("%s in %s", plural(before, "key"), plural(int64(len(r.Heat)), "group"))
		most := int64(0)
		for _, k := range r.MostDenied {
			most = max(most, k.Denied)
		}
		for _, k := range r.MostDenied {
			one.MostDenied = append(one.MostDenied, deniedKey{name(k.Key), output.Thousands(k.Denied), output.Thousands(k.Allowed), share(k.Denied, k.Denied+k.Allowed),
				rounded(100 * float64(k.Denied) / float64(max(most, 1)))})
		}
		p.HasMostDenied = p.HasMostDenied || len(one.MostDenied) > 0
	}
}

// heat is how strong the colour of a share is. The least is seen to be a cell, and
// any denial to be more than none.
func heat(part float64) float64 {
	if part <= 0 {
		return 0
	}
	return rounded(0.15 + 0.85*math.Min(part, 1))
}

// cost fills in the table of costs, of the figures that any run has.
func (p *page) cost(d *Document, titles []string) {
	p.Cost.Header = append([]string{""}, titles...)
	for _, cost := range costs {
		row, any := []pageCell{{Text: cost.title}}, false
		for i := range d.Runs {
			var figure *float64
			if d.Runs[i].Cost != nil {
				figure = cost.of(d.Runs[i].Cost)
			}
			any = any || figure != nil
			row = append(row, pageCell{Text: known(figure), Right: true})
		}
		if any {
			p.Cost.Rows = append(p.Cost.Rows, row)
		}
	}
}

func rounded(f float64) float64 { return math.Round(f*100) / 100 }

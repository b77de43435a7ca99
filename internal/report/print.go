package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/limitctl/limitctl/internal/output"
)

// Print implements [output.Answer]: first the verdict and what is
// wrong, then one run in words and
// numbers or several runs side by side, then the thresholds.
func (a Answer) Print(p *output.Printer) {
	d := a.Report
	printVerdict(d, p)
	if d.Interrupted {
		say(p, output.Near, "interrupted: these are the results up to then")
	}
	switch len(d.Runs) {
	case 0:
		fmt.Fprintln(p.Out, "no runs")
	case 1:
		printOne(d, p, &d.Runs[0])
	default:
		printSeveral(d, p)
	}
	printSuggestions(d, p)
	printThresholds(d, p)
}

func printOne(d *Document, p *output.Printer, r *Run) {
	for _, alarm := range alarmsOfRun(r) {
		say(p, alarm.style, alarm.text)
	}
	line(p, "limit", output.Plain, output.Printable(r.Title()))
	line(p, "load", output.Plain, output.Printable(loadInWords(r, d.Kind)))
	line(p, "answers", output.Plain, answersInWords(&r.Figures))
	if len(r.Statuses) > 0 {
		line(p, "", output.Plain, statusesInWords(r))
	}
	if r.Keys > 0 {
		line(p, "keys", output.Plain, fmt.Sprintf("%s, %s of them denied at least once (%s)",
			output.Thousands(r.Keys), output.Thousands(r.KeysDenied), output.Share(r.KeysDenied, r.Keys)))
	}
	if r.Neighbours != nil {
		line(p, "neighbours", output.Plain, neighboursInWords(r))
	}
	verdict := verdictOf(r)
	line(p, "right?", verdict.style, verdict.mark()+" "+verdict.text)
	if r.Requests > 0 {
		line(p, "", output.Plain, auditInWords(r))
	}
	if r.Wrapped != nil {
		line(p, "wrapped", output.Plain, savedWords(r.Wrapped, r))
		line(p, "", output.Plain, priceWords(r.Wrapped))
	}
	if d.Kind != Simulation {
		line(p, "fast?", output.Plain, output.PerSecond(r.ThroughputPerS)+" answered")
	}
	if columns, rows := timesTable(r); len(rows) > 0 {
		p.Table(columns, rows)
	}
	if connections := connectionsInWords(r); connections != "" {
		line(p, "", output.Plain, connections)
	}
	if parts := costTerms(r); len(parts) > 0 {
		line(p, "cost?", output.Plain, "a decision: "+joinCost(parts))
	}
	printTimeline(p, r)
	if len(r.Limits) > 1 {
		fmt.Fprintln(p.Out)
		columns, rows := limitsTable(r)
		p.Table(columns, rows)
	}
	printMostDenied(p, r)
}

// times are the distributions of a run, those that it has.
func inTimes(r *Run) []namedTimes {
	all := []namedTimes{{"latency", r.Latency}, {"service", r.Service}}
	if r.AllowedService != nil && r.DeniedService != nil { // else they are all
		all = append(all, namedTimes{"allowed", r.AllowedService}, namedTimes{"denied", r.DeniedService})
	}
	all = append(append(all, namedTimes{"lag", r.Lag}, namedTimes{"errors", r.ErrorLatency}), endpointTimes(r)...)
	return slices.DeleteFunc(all, func(t namedTimes) bool { return t.of == nil })
}

type namedTimes struct {
	name string
	of   *Quantiles
}

// timesTable has the distributions of a run, a row for each.
func timesTable(r *Run) (columns []output.Column, rows [][]output.Cell) {
	times := inTimes(r)
	figures := slices.DeleteFunc(timeFigures(), func(f TimeFigure) bool {
		return f.Name == "p9999" && r.Requests < enoughForP9999 ||
			!slices.ContainsFunc(times, func(t namedTimes) bool { _, known := f.Known(t.of); return known })
	})
	columns = []output.Column{{Header: "         "}}
	for _, f := range figures {
		columns = append(columns, output.Column{Header: f.Title, Right: true, Drops: f.drops})
	}
	for _, t := range times {
		row := []output.Cell{{Text: "  " + t.name}}
		for _, f := range figures {
			cell := output.Cell{Text: "-"}
			if us, known := f.Known(t.of); known {
				cell.Text = output.Micros(us)
			}
			row = append(row, cell)
		}
		rows = append(rows, row)
	}
	return columns, rows
}

func printMostDenied(p *output.Printer, r *Run) {
	if columns, rows := mostDeniedTable(r); len(rows) > 0 {
		fmt.Fprintln(p.Out)
		p.Table(columns, rows)
	}
}

// mostDeniedTable has the keys that were denied most often.
func mostDeniedTable(r *Run) (columns []output.Column, rows [][]output.Cell) {
	columns = []output.Column{
		{Header: "MOST DENIED", Shrinks: 12}, {Header: "DENIED", Right: true},
		{Header: "ALLOWED", Right: true, Drops: 2}, {Header: "SHARE", Right: true, Drops: 1},
	}
	for _, key := range r.MostDenied {
		rows = append(rows, []output.Cell{
			{Text: key.Key}, {Text: output.Thousands(key.Denied)}, {Text: output.Thousands(key.Allowed)},
			{Text: output.Share(key.Denied, key.Denied+key.Allowed)},
		})
	}
	return columns, rows
}

// printTimeline draws what became of requests over time, all to one scale. Beside allowed
// and denied it is what there was.
func printTimeline(p *output.Printer, r *Run) {
	width := 60
	if p.Width > 0 {
		width = min(width, p.Width-indent-1)
	}
	if len(r.Timeline) < 2 || width < 10 {
		return
	}
	columns, top := columnsOf(r, width), int64(0)
	lines := make([][]int64, len(outcomes))
	for i := range columns {
		for j, outcome := range outcomes {
			n := outcome.of(&columns[i])
			if columns[i].warmup {
				n = warmingUp
			}
			lines[j], top = append(lines[j], n), max(top, n)
		}
	}
	if top == 0 {
		return
	}
	for j, outcome := range outcomes {
		if j < 2 || slices.Max(lines[j]) > 0 {
			line(p, outcome.name, output.Plain, sparkline(lines[j], top))
		}
	}
	if columns[0].warmup {
		line(p, warmUp, output.Plain, "░: what was answered then is only audited")
	}
}

func printSeveral(d *Document, p *output.Printer) {
	alarms, titles := alarmsOf(d)
	for i, alarm := range alarms {
		if titles[i] != "" {
			alarm.text = output.Printable(titles[i]) + ": " + alarm.text
		}
		say(p, alarm.style, alarm.text)
	}
	line(p, "load", output.Plain, output.Printable(commonLoad(d)))
	columns, rows := comparison(d)
	fmt.Fprintln(p.Out)
	p.Table(columns, rows)
}

func printSuggestions(d *Document, p *output.Printer) {
	if len(d.Suggestions) > 0 {
		fmt.Fprintln(p.Out)
	}
	for i := range d.Suggestions {
		f := findingOf(&d.Suggestions[i])
		say(p, f.style, f.text)
	}
}

func printThresholds(d *Document, p *output.Printer) {
	if len(d.Thresholds) > 0 {
		fmt.Fprintln(p.Out)
	}
	for _, t := range missedFirst(d) {
		f := findingOfThreshold(&t)
		if len(d.Runs) > 1 {
			f.text += " with " + output.Printable(d.Runs[t.Run].Title())
		}
		say(p, f.style, f.text)
	}
}

// printVerdict prints whether all is well, before anything else.
func printVerdict(d *Document, p *output.Printer) {
	texts, style := ruling(d)
	labelled(p, strings.ToUpper(string(d.Verdict)), style, texts)
}

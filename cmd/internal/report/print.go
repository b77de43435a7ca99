package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/limitctl/limitctl/cmd/internal/output"
)

// Print implements [output.Answer]: first the verdict and what is
// wrong, then one run in words and
// numbers or several runs side by side, then the thresholds.
func (d *Document) Print(p *output.Printer) {
	d.printVerdict(p)
	if d.Interrupted {
		say(p, finding{output.Near, "interrupted: these are the results up to then"})
	}
	switch len(d.Runs) {
	case 0:
		fmt.Fprintln(p.Out, "no runs")
	case 1:
		d.printOne(p, &d.Runs[0])
	default:
		d.printSeveral(p)
	}
	d.printSuggestions(p)
	d.printThresholds(p)
}

const (
	// indent is where the text of a labelled line begins.
	indent = 11
	// narrow is the width below which labels have lines of their own.
	narrow = 60
)

// line prints a text under a label, wrapped to the terminal.
func line(p *output.Printer, label string, style output.Style, text string) {
	at := indent
	if p.Width > 0 && p.Width < narrow {
		at = 2
		if label != "" {
			fmt.Fprintln(p.Out, p.Paint(output.Faint, label))
			label = ""
		}
	}
	for _, part := range output.Wrap(text, p.Width-at) {
		space := strings.Repeat(" ", at-output.Width(label))
		fmt.Fprintln(p.Out, strings.TrimRight(p.Paint(output.Faint, label)+space+p.Paint(style, part), " "))
		label = ""
	}
}

// say prints a finding at the margin.
func say(p *output.Printer, f finding) {
	lead := f.mark() + " "
	for _, part := range output.Wrap(f.text, p.Width-2) {
		fmt.Fprintln(p.Out, p.Paint(f.style, lead+part))
		lead = "  "
	}
}

func (d *Document) printOne(p *output.Printer, r *Run) {
	for _, alarm := range r.alarms() {
		say(p, alarm)
	}
	line(p, "limit", output.Plain, output.Printable(r.Title()))
	line(p, "load", output.Plain, output.Printable(r.loadInWords(d.Kind)))
	line(p, "answers", output.Plain, r.answersInWords())
	if len(r.Statuses) > 0 {
		line(p, "", output.Plain, r.statusesInWords())
	}
	if r.Keys > 0 {
		line(p, "keys", output.Plain, fmt.Sprintf("%s, %s of them denied at least once (%s)",
			output.Thousands(r.Keys), output.Thousands(r.KeysDenied), share(r.KeysDenied, r.Keys)))
	}
	if r.Neighbours != nil {
		line(p, "neighbours", output.Plain, r.neighboursInWords())
	}
	verdict := r.verdict()
	line(p, "right?", verdict.style, verdict.mark()+" "+verdict.text)
	if r.Requests > 0 {
		line(p, "", output.Plain, r.auditInWords())
	}
	if r.Wrapped != nil {
		line(p, "wrapped", output.Plain, r.Wrapped.saved(r))
		line(p, "", output.Plain, r.Wrapped.price(r))
	}
	if d.Kind != Simulation {
		line(p, "fast?", output.Plain, perSecond(r.ThroughputPerS)+" answered")
	}
	printTimes(p, r)
	if r.isMixed() {
		columns, rows := deciderTable(&r.Figures)
		fold(p, columns, rows)
	}
	if connections := r.connectionsInWords(); connections != "" {
		line(p, "", output.Plain, connections)
	}
	if parts := r.costParts(); len(parts) > 0 {
		line(p, "cost?", output.Plain, "a decision: "+joinCost(parts))
	}
	printTimeline(p, r)
	if len(r.Limits) > 1 {
		fmt.Fprintln(p.Out)
		columns, rows := limitsTable(r)
		fold(p, columns, rows)
	}
	printMostDenied(p, r)
}

// times are the distributions of a run, those that it has.
func (r *Run) times() []namedTimes {
	all := append([]namedTimes{{"latency", r.Latency}, {"service", r.Service}, {"lag", r.Lag}}, r.endpointTimes()...)
	return slices.DeleteFunc(all, func(t namedTimes) bool { return t.of == nil })
}

type namedTimes struct {
	name string
	of   *Quantiles
}

// printTimes shows the distributions, a row for each. Where they do not fit, figures are
// the rows, so that none is left out.
func printTimes(p *output.Printer, r *Run) {
	times := r.times()
	if len(times) == 0 {
		return
	}
	figures := slices.DeleteFunc(timeFigures(), func(f timeFigure) bool {
		return f.name == "p9999" && r.Requests < enoughForP9999 ||
			!slices.ContainsFunc(times, func(t namedTimes) bool { _, known := f.known(t.of); return known })
	})
	cell := func(f timeFigure, t namedTimes) output.Cell {
		if us, known := f.known(t.of); known {
			return output.Cell{Text: micros(us)}
		}
		return output.Cell{Text: "-"}
	}
	columns, rows := []output.Column{{Header: "         "}}, make([][]output.Cell, len(times))
	for _, f := range figures {
		columns = append(columns, output.Column{Header: f.title, Right: true})
	}
	for i, t := range times {
		rows[i] = []output.Cell{{Text: "  " + t.name}}
		for _, f := range figures {
			rows[i] = append(rows[i], cell(f, t))
		}
	}
	if p.Width > 0 && output.TableWidth(columns, rows) > p.Width {
		columns, rows = []output.Column{{Header: "        "}}, nil
		for _, t := range times {
			columns = append(columns, output.Column{Header: t.name, Right: true})
		}
		for _, f := range figures {
			row := []output.Cell{{Text: "  " + f.title}}
			for _, t := range times {
				row = append(row, cell(f, t))
			}
			rows = append(rows, row)
		}
	}
	p.Table(columns, rows)
}

func printMostDenied(p *output.Printer, r *Run) {
	if len(r.MostDenied) == 0 {
		return
	}
	columns := []output.Column{
		{Header: "MOST DENIED", Shrinks: 12}, {Header: "DENIED", Right: true},
		{Header: "ALLOWED", Right: true, Drops: 2}, {Header: "SHARE", Right: true, Drops: 1},
	}
	fmt.Fprintln(p.Out)
	var rows [][]output.Cell
	for _, key := range r.MostDenied {
		rows = append(rows, []output.Cell{
			{Text: key.Key}, {Text: output.Thousands(key.Denied)}, {Text: output.Thousands(key.Allowed)},
			{Text: share(key.Denied, key.Denied+key.Allowed)},
		})
	}
	fold(p, columns, rows)
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
	columns, top := r.columnsOf(width), int64(0)
	lines := make([][]int64, len(outcomes))
	for i := range columns {
		for j, outcome := range outcomes {
			n := outcome.of(&columns[i])
			lines[j], top = append(lines[j], n), max(top, n)
		}
	}
	if top == 0 {
		return
	}
	if silent := r.silence(columns); slices.Contains(silent, 1) {
		defer line(p, "no answer", output.AtEnd, sparkline(silent, 1))
	}
	for j, outcome := range outcomes {
		if j < 2 || slices.Max(lines[j]) > 0 {
			line(p, outcome.name, output.Plain, sparkline(lines[j], top))
		}
	}
}

// sparkline draws values as blocks. Any value above 0 is visible.
func sparkline(values []int64, top int64) string {
	const blocks = "▁▂▃▄▅▆▇█"
	levels := []rune(blocks)
	var b strings.Builder
	for _, value := range values {
		if value <= 0 {
			b.WriteRune('·')
			continue
		}
		b.WriteRune(levels[int(float64(value)/float64(top)*float64(len(levels)-1)+0.5)])
	}
	return b.String()
}

func (d *Document) printSeveral(p *output.Printer) {
	alarms, titles := d.alarms()
	for i, alarm := range alarms {
		if titles[i] != "" {
			alarm.text = output.Printable(titles[i]) + ": " + alarm.text
		}
		say(p, alarm)
	}
	line(p, "load", output.Plain, output.Printable(d.commonLoad()))
	columns, rows := d.comparison()
	fmt.Fprintln(p.Out)
	fold(p, columns, rows)
}

func (d *Document) printSuggestions(p *output.Printer) {
	if len(d.Suggestions) > 0 {
		fmt.Fprintln(p.Out)
	}
	for _, s := range d.Suggestions {
		say(p, s.finding())
	}
}

func (d *Document) printThresholds(p *output.Printer) {
	if len(d.Thresholds) > 0 {
		fmt.Fprintln(p.Out)
	}
	for _, t := range d.missedFirst() {
		f := finding{output.Calm, fmt.Sprintf("%s: %s", t.Expression, t.Actual)}
		if !t.OK {
			f.style = output.AtEnd
		}
		if len(d.Runs) > 1 {
			f.text += " with " + output.Printable(d.Runs[t.Run].Title())
		}
		say(p, f)
	}
}

// missedFirst is the thresholds with those first that were missed.
func (d *Document) missedFirst() []Threshold {
	thresholds := slices.Clone(d.Thresholds)
	slices.SortStableFunc(thresholds, func(a, b Threshold) int { return missedFirst(a.OK, b.OK) })
	return thresholds
}

// missedFirst orders thresholds.
func missedFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

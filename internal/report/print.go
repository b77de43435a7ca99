package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/limitctl/limitctl/internal/output"
)

// Print implements [output.Answer]: first the verdict and what is wrong, then one run in words and numbers or several runs
// side by side, then the thresholds.
func (a Answer) Print(p *output.Printer) {
	d := a.Report
	texts, style := ruling(d)
	line(p, strings.ToUpper(string(d.Verdict)), style, style, shortened(texts)...)
	if d.Interrupted {
		say(p, output.Near, "interrupted: these are the results up to then")
	}
	for _, alarm := range alarms(d) {
		say(p, alarm.style, alarm.String())
	}
	switch len(d.Runs) {
	case 0:
		fmt.Fprintln(p.Out, "no runs")
	case 1:
		printOne(d, p, &d.Runs[0])
	default:
		line(p, "load", output.Faint, output.Plain, commonLoad(d))
		fmt.Fprintln(p.Out)
		p.Table(comparison(d))
	}
	for i, f := range promises(d) {
		if i == 0 {
			fmt.Fprintln(p.Out)
		}
		say(p, f.style, f.String())
	}
}

func printOne(d *Document, p *output.Printer, r *Run) {
	for _, f := range figuresOf(r, d.Kind) {
		style := f.style
		for _, text := range f.lines {
			line(p, f.Name, output.Faint, style, text)
			f.Name, style = "", output.Plain
		}
	}
	if columns, rows := timesTable(r); len(rows) > 0 {
		p.Table(columns, rows)
	}
	printTimeline(p, r)
	if len(r.Limits) > 1 {
		fmt.Fprintln(p.Out)
		p.Table(limitsTable(r))
	}
	if columns, rows := mostDeniedTable(r); len(rows) > 0 {
		fmt.Fprintln(p.Out)
		p.Table(columns, rows)
	}
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
			line(p, outcome.name, output.Faint, output.Plain, sparkline(lines[j], top))
		}
	}
	if columns[0].warmup {
		line(p, warmUp, output.Faint, output.Plain, "░: what was answered then is only audited")
	}
}

// shortName makes a text of others fit to be shown: nothing invisible in it, and no
// longer than one reads.
func shortName(text string) string {
	const longest = 90
	return output.Cut(output.Printable(text), longest)
}

const (
	// indent is where the text of a labelled line begins.
	indent = 11
	// narrow is the width below which labels have lines of their own.
	narrow = 60
)

// line prints texts under a label, wrapped to the terminal.
func line(p *output.Printer, label string, labelStyle, style output.Style, texts ...string) {
	at := indent
	if n := output.Width(label); n >= indent {
		at = n + 2
	}
	if p.Width > 0 && p.Width < narrow {
		at = 2
		if label != "" {
			fmt.Fprintln(p.Out, p.Paint(labelStyle, label))
			label = ""
		}
	}
	for _, text := range texts {
		for _, part := range output.Wrap(output.Printable(text), p.Width-at) {
			space := strings.Repeat(" ", at-output.Width(label))
			fmt.Fprintln(p.Out, strings.TrimRight(p.Paint(labelStyle, label)+space+p.Paint(style, part), " "))
			label = ""
		}
	}
}

// say prints a finding at the margin.
func say(p *output.Printer, style output.Style, text string) {
	lead := finding{style: style}.mark() + " "
	for _, part := range output.Wrap(output.Printable(text), p.Width-2) {
		fmt.Fprintln(p.Out, p.Paint(style, lead+part))
		lead = "  "
	}
}

// mostReasons is how many reasons are shown to people before the rest is only counted.
const mostReasons = 8

// shortened is reasons as people are shown them.
func shortened(reasons []string) []string {
	if len(reasons) <= mostReasons+1 {
		return reasons
	}
	left := fmt.Sprintf("and %d more reasons; -o json lists them", len(reasons)-mostReasons)
	return append(slices.Clone(reasons[:mostReasons]), left)
}

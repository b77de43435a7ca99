package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/limitctl/limitctl/internal/output"
)

// mostLines is how many lines the end of a run has, tables and missed thresholds apart, unless it is verbose.
const mostLines = 12

// Print implements [output.Answer]: the answer, the evidence for it, the thresholds and the doubts.
func (a Answer) Print(p *output.Printer) {
	d, s := a.Report, screen{Printer: p}
	word, style, reasons := d.headline()
	text := output.Plain
	if style == output.AtEnd {
		text = style
	}
	most := 3
	if a.Verbose {
		most = len(reasons)
	}
	s.labelled(word, style, text, shortened(reasons, most)...)
	room := mostLines + a.evidence(&s)
	for _, f := range promises(d, !a.Verbose) {
		before := len(s.lines)
		if s.say(f); f.style == output.AtEnd {
			room += len(s.lines) - before
		}
	}
	s.notes(alarms(d), room-len(s.lines)-1, a.Verbose)
	if !a.Verbose && len(d.Runs) > 0 {
		s.labelled("more", output.Faint, output.Faint, "-v: everything · --html FILE: a page with charts")
	}
	s.flush()
}

// evidence prints the figures of a single run, or several runs side by side, and returns how many lines are tables.
func (a Answer) evidence(s *screen) (tables int) {
	d := a.Report
	if len(d.Runs) == 0 {
		return 0
	}
	r := &d.Runs[0]
	table := func(columns []output.Column, rows [][]output.Cell) {
		if len(rows) == 0 {
			return
		}
		before := len(s.lines)
		if len(s.lines) > 0 && s.lines[before-1] != "" {
			s.lines = append(s.lines, "")
		}
		s.lines = append(append(s.lines, s.TableLines(columns, rows)...), "")
		tables += len(s.lines) - before
	}
	if d.Kind == Simulation && len(d.Runs) == 1 {
		most := len(r.MostDenied)
		if !a.Verbose {
			most = min(most, 5)
		}
		table(mostDeniedTable(r.MostDenied[:most]))
	}
	for _, f := range facts(d) {
		if a.Verbose || !f.detail {
			s.labelled(f.Name, output.Faint, output.Plain, f.line)
		}
	}
	if len(d.Runs) > 1 {
		table(comparison(d))
		return tables
	}
	if len(r.Limits) > 1 {
		table(limitsTable(r))
	}
	if a.Verbose {
		table(timesTable(r))
		if d.Kind != Simulation {
			table(mostDeniedTable(r.MostDenied))
		}
	}
	return tables
}

// screen is what is printed of a report, a line after the other.
type screen struct {
	*output.Printer
	lines []string
}

// flush prints the lines.
func (s *screen) flush() {
	for _, line := range s.lines {
		fmt.Fprintln(s.Out, line)
	}
}

// notes prints findings in that many lines, of which the last counts those that are left out.
func (s *screen) notes(all []finding, room int, verbose bool) {
	for i, note := range all {
		before := len(s.lines)
		s.say(note)
		room -= len(s.lines) - before
		if rest := len(all) - i; !verbose && i > 0 && (room < 0 || room == 0 && rest > 1) {
			s.lines = s.lines[:before]
			s.say(finding{style: output.Near, text: fmt.Sprintf("and %s; -v has them", output.Count(int64(rest),
				"more note"))})
			return
		}
	}
}

// shortName makes a text of others fit to be shown: nothing invisible in it, and no
// longer than one reads.
func shortName(text string) string {
	const longest = 90
	return output.Cut(output.Printable(text), longest)
}

// indent is where the text of a labelled line begins.
const indent = 9

// labelled prints texts under a label, wrapped to the terminal.
func (s *screen) labelled(label string, labelStyle, style output.Style, texts ...string) {
	at := max(indent, output.Width(label)+1)
	if at > indent {
		at++
	} else if label == "" {
		at = 0
	}
	for _, text := range texts {
		s.put(label, at, labelStyle, style, text)
		label = ""
	}
}

// say prints a finding at the margin.
func (s *screen) say(f finding) {
	style := output.Plain
	if f.style == output.AtEnd {
		style = f.style
	}
	s.put(f.Mark(), 2, f.style, style, f.text)
}

// put prints a text from that column on, and a label before its first line.
func (s *screen) put(label string, at int, labelStyle, style output.Style, text string) {
	for _, part := range output.Wrap(output.Printable(text), s.Width-at) {
		space := strings.Repeat(" ", at-output.Width(label))
		s.lines = append(s.lines, strings.TrimRight(s.Paint(labelStyle, label)+space+s.Paint(style, part), " "))
		label = ""
	}
}

// mostReasons is how many reasons a summary or a page shows before the rest is only counted.
const mostReasons = 8

// shortened is reasons as people are shown them.
func shortened(reasons []string, most int) []string {
	if len(reasons) <= most+1 {
		return reasons
	}
	left := fmt.Sprintf("and %d more reasons", len(reasons)-most)
	return append(slices.Clone(reasons[:most]), left)
}

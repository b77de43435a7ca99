package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/limitctl/limitctl/internal/markdown"
	"github.com/limitctl/limitctl/internal/output"
)

// Markdown returns the document as a short summary for a pull request or the page of a
// build: the verdict, what was run, the runs side by side, and the thresholds.
func (a Answer) Markdown() []byte {
	d := a.Report
	var b strings.Builder
	reasons, _ := ruling(d)
	Heading(&b, d.Verdict, a.what(markdown.Code))
	if d.Interrupted {
		b.WriteString("**Interrupted: these are the results up to then.**\n\n")
	}
	bullets(&b, shortened(reasons))
	factsInMarkdown(d, &b)
	runsInMarkdown(d, &b)
	if len(d.Thresholds) > 0 {
		header, right := []string{"", "threshold", "actual"}, []bool{false, false, true}
		if len(d.Runs) > 1 {
			header, right = append(header, "run"), append(right, false)
		}
		var rows [][]string
		for _, t := range missedFirst(d) {
			row := []string{mark(&t), markdown.Code(shortName(t.Expression)), markdown.Text(shortName(t.Actual))}
			if len(d.Runs) > 1 {
				row = append(row, markdown.Code(shortName(d.Runs[t.Run].Title())))
			}
			rows = append(rows, row)
		}
		markdown.Table(&b, header, right, rows)
	}
	var notes []string
	alarms, titles := alarmsOf(d)
	for i, alarm := range alarms {
		if titles[i] != "" {
			alarm.text = titles[i] + ": " + alarm.text
		}
		notes = append(notes, alarm.mark()+" "+alarm.text)
	}
	bullets(&b, notes)
	if o := d.Origin; o != nil {
		fmt.Fprintf(&b, "<sub>limitctl %s · %s</sub>\n", markdown.Text(shortName(o.Version)), markdown.Code(output.Cut(o.Command, longestFact)))
	}
	return []byte(b.String())
}

// what names what a document is of, with the title of a single run as code writes it.
func (a Answer) what(code func(string) string) string {
	kind := map[Kind]string{LoadTest: "load test", Simulation: "simulation"}[a.Report.Kind]
	if len(a.Report.Runs) == 1 {
		return kind + " of " + code(shortName(a.Report.Runs[0].Title()))
	}
	return kind + " of " + output.Count(int64(len(a.Report.Runs)), "run")
}

// Ruling returns the verdict on the document, and why it did not pass.
func (a Answer) Ruling() (verdict Verdict, what string, reasons []string) {
	a.Report.Judge()
	return a.Report.Verdict, a.what(func(title string) string { return title }), slices.Clone(shortened(a.Report.Reasons))
}

// Heading writes the verdict on something.
func Heading(b *strings.Builder, v Verdict, what string) {
	word := map[Verdict]string{Pass: "✅ PASS", Fail: "❌ FAIL", Inconclusive: "❔ INCONCLUSIVE"}[v]
	fmt.Fprintf(b, "### %s: %s\n\n", word, what)
}

func mark(t *Threshold) string {
	switch {
	case t.OK:
		return "✅"
	case t.IsMissed():
		return "❌"
	}
	return "❔"
}

// Bullets writes texts as a list.
func bullets(b *strings.Builder, texts []string) {
	for _, text := range texts {
		b.WriteString("- " + markdown.Text(output.Cut(output.Printable(text), 400)) + "\n")
	}
	if len(texts) > 0 {
		b.WriteString("\n")
	}
}

// factsInMarkdown says what was run.
func factsInMarkdown(d *Document, b *strings.Builder) {
	var rows [][]string
	if len(d.Runs) == 1 {
		words := answersInWords(&d.Runs[0].Figures)
		if statuses := statusesInWords(&d.Runs[0]); statuses != "" {
			words += "; answers: " + statuses
		}
		rows = append(rows, []string{"Requests", markdown.Text(output.Cut(output.Printable(words), longestFact))})
	}
	for _, f := range facts(d) {
		value := markdown.Text(f.Value)
		if f.Name == "Command" {
			continue // it is at the end
		}
		rows = append(rows, []string{markdown.Text(f.Name), value})
	}
	if len(rows) > 0 {
		markdown.Table(b, []string{"", ""}, []bool{false, false}, rows)
	}
}

// runsInMarkdown shows the figures of the runs, a row for each.
func runsInMarkdown(d *Document, b *strings.Builder) {
	if len(d.Runs) == 0 {
		return
	}
	columns, rows := withoutSparklines(comparison(d))
	var header []string
	var right []bool
	for _, c := range columns {
		header, right = append(header, strings.ToLower(c.Header)), append(right, c.Right)
	}
	var cells [][]string
	for _, row := range rows {
		line := []string{markdown.Code(shortName(row[0].Text))}
		for _, cell := range row[1:] {
			text := markdown.Text(shortName(cell.Text))
			if cell.Style == output.AtEnd {
				text = "**" + text + "**"
			}
			line = append(line, text)
		}
		cells = append(cells, line)
	}
	markdown.Table(b, header, right, cells)
}

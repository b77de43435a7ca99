package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/limitctl/limitctl/cmd/internal/markdown"
	"github.com/limitctl/limitctl/cmd/internal/output"
)

// Markdown returns the document as a short summary for a pull request or the page of a
// build: the verdict, what was run, the runs side by side, and the thresholds.
func (d *Document) Markdown() []byte {
	d.judge()
	var b strings.Builder
	what := map[Kind]string{LoadTest: "load test", Simulation: "simulation"}[d.Kind]
	if len(d.Runs) == 1 {
		what += " of " + markdown.Code(name(d.Runs[0].Title()))
	} else {
		what += " of " + plural(int64(len(d.Runs)), "run")
	}
	reasons := d.Reasons
	if d.Verdict == Pass {
		reasons, _ = d.passed()
	}
	heading(&b, d.Verdict, what)
	if d.Interrupted {
		b.WriteString("**Interrupted: these are the results up to then.**\n\n")
	}
	bullets(&b, shortened(reasons))
	d.factsInMarkdown(&b)
	d.runsInMarkdown(&b)
	if len(d.Thresholds) > 0 {
		header, right := []string{"", "threshold", "actual"}, []bool{false, false, true}
		if len(d.Runs) > 1 {
			header, right = append(header, "run"), append(right, false)
		}
		var rows [][]string
		for _, t := range d.missedFirst() {
			row := []string{mark(t.OK), markdown.Code(name(t.Expression)), markdown.Text(name(t.Actual))}
			if len(d.Runs) > 1 {
				row = append(row, markdown.Code(name(d.Runs[t.Run].Title())))
			}
			rows = append(rows, row)
		}
		markdown.Table(&b, header, right, rows)
	}
	var notes []string
	alarms, titles := d.alarms()
	for i, alarm := range alarms {
		if titles[i] != "" {
			alarm.text = titles[i] + ": " + alarm.text
		}
		notes = append(notes, alarm.mark()+" "+alarm.text)
	}
	bullets(&b, notes)
	if o := d.Origin; o != nil {
		fmt.Fprintf(&b, "<sub>limitctl %s · %s</sub>\n", markdown.Text(name(o.Version)), markdown.Code(output.Cut(o.Command, longestFact)))
	}
	return []byte(b.String())
}

func heading(b *strings.Builder, v Verdict, what string) {
	word := map[Verdict]string{Pass: "✅ PASS", Fail: "❌ FAIL"}[v]
	fmt.Fprintf(b, "### %s: %s\n\n", word, what)
}

func mark(ok bool) string {
	if ok {
		return "✅"
	}
	return "❌"
}

func bullets(b *strings.Builder, texts []string) {
	for _, text := range texts {
		b.WriteString("- " + markdown.Text(output.Cut(output.Printable(text), 400)) + "\n")
	}
	if len(texts) > 0 {
		b.WriteString("\n")
	}
}

// factsInMarkdown says what was run.
func (d *Document) factsInMarkdown(b *strings.Builder) {
	var rows [][]string
	for _, f := range d.facts() {
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
func (d *Document) runsInMarkdown(b *strings.Builder) {
	if len(d.Runs) == 0 {
		return
	}
	columns, rows := d.comparison()
	// A picture of text is not readable in the font of a page.
	if i := slices.IndexFunc(columns, func(c output.Column) bool { return c.Header == deniedOverTimeHeader }); i >= 0 {
		columns = slices.Delete(columns, i, i+1)
		for j := range rows {
			rows[j] = slices.Delete(rows[j], i, i+1)
		}
	}
	var header []string
	var right []bool
	for _, c := range columns {
		header, right = append(header, strings.ToLower(c.Header)), append(right, c.Right)
	}
	var cells [][]string
	for _, row := range rows {
		line := []string{markdown.Code(name(row[0].Text))}
		for _, cell := range row[1:] {
			text := markdown.Text(name(cell.Text))
			if cell.Style == output.AtEnd {
				text = "**" + text + "**"
			}
			line = append(line, text)
		}
		cells = append(cells, line)
	}
	markdown.Table(b, header, right, cells)
}

// Markdown returns the comparison as a short summary: the verdict, and what differs.
func (c *Comparison) Markdown() []byte {
	var b strings.Builder
	heading(&b, c.Verdict, "comparison of "+plural(int64(len(c.Runs)), "run"))
	bullets(&b, c.Warnings)
	for _, run := range c.Runs {
		var rows [][]string
		same := 0
		for i := range run.Differences {
			d := &run.Differences[i]
			if d.Verdict == Same {
				same++
				continue
			}
			word := string(d.Verdict)
			if d.Verdict == Worse {
				word = "❌ **worse**"
			}
			rows = append(rows, []string{
				markdown.Text(d.name()), markdown.Text(d.figure.write(d.Base)), markdown.Text(d.figure.write(d.New)),
				markdown.Text(d.change()), word,
			})
		}
		fmt.Fprintf(&b, "%s: %s", markdown.Code(name(run.Run)), plural(int64(same), "figure")+" the same")
		if len(rows) == 0 {
			b.WriteString("\n\n")
			continue
		}
		b.WriteString(", and\n\n")
		markdown.Table(&b, []string{"metric", "base", "new", "change", ""}, []bool{false, true, true, true, false}, rows)
	}
	return []byte(b.String())
}

package report

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/limitctl/limitctl/internal/junit"
	"github.com/limitctl/limitctl/internal/output"
)

// Lines implements [output.Answer]: a line for each run.
func (c *Comparison) Lines() []any { return output.Lines(c.Runs) }

// Records implements [output.Answer]: a row for each figure.
func (c *Comparison) Records() [][]string {
	records := [][]string{{"run", "metric", "base", "new", "verdict", "base_least", "base_most", "judged"}}
	known := func(f *float64) string {
		if f == nil {
			return ""
		}
		return float(*f)
	}
	for _, run := range c.Runs {
		for _, d := range run.Differences {
			records = append(records, []string{run.Run, d.Metric, float(d.Base), float(d.New), string(d.Verdict),
				known(d.BaseLeast), known(d.BaseMost), strconv.FormatBool(d.Judged)})
		}
	}
	return records
}

// Ruling returns the verdict on the new report, and what became worse.
func (c *Comparison) Ruling() (verdict Verdict, what string, reasons []string) {
	return c.Verdict, "comparison with earlier reports", c.worse()
}

// Print implements [output.Answer]: the verdict with its reasons, what makes it doubtful,
// and the table of each run.
func (c *Comparison) Print(p *output.Printer) {
	s := screen{Printer: p}
	if c.Verdict == Fail {
		s.labelled("FAIL", output.AtEnd, output.AtEnd, shortened(c.worse(), mostReasons)...)
	} else {
		s.labelled("PASS", output.Calm, output.Plain, "no regression")
	}
	for _, warning := range c.Warnings {
		s.say(finding{style: output.Near, text: warning})
	}
	styles := map[Verdict]output.Style{Worse: output.AtEnd, Changed: output.Near}
	for _, run := range c.Runs {
		s.lines = append(s.lines, "")
		s.labelled("", output.Plain, output.Plain, shortName(run.Run))
		columns := []output.Column{
			{Header: "METRIC", Shrinks: 12}, {Header: "BASE", Right: true}, {Header: "NEW", Right: true},
			{Header: "CHANGE", Right: true, Drops: 1}, {Header: ""},
		}
		var rows [][]output.Cell
		for i := range run.Differences {
			d := &run.Differences[i]
			row := []output.Cell{{Text: d.name()}, {Text: d.base()}, {Text: d.write(d.New)}, {Text: d.change()},
				{}}
			if d.Verdict != Same {
				row[4] = output.Cell{Text: string(d.Verdict), Style: styles[d.Verdict]}
			}
			rows = append(rows, row)
		}
		s.lines = append(s.lines, s.TableLines(columns, rows)...)
	}
	for _, line := range s.lines {
		fmt.Fprintln(p.Out, line)
	}
}

// worse says what became worse.
func (c *Comparison) worse() (all []string) {
	for _, run := range c.Runs {
		about := ""
		if len(c.Runs) > 1 {
			about = run.Run + ": "
		}
		for i := range run.Differences {
			if d := &run.Differences[i]; d.Verdict == Worse {
				all = append(all, about+d.inWords())
			}
		}
	}
	return all
}

// inWords says what the figure is, and what it was.
func (d *Difference) inWords() string {
	text := fmt.Sprintf("%s is %s, and was %s", d.name(), d.write(d.New), d.base())
	if change := d.change(); change != "" {
		text += " (" + change + ")"
	}
	return text
}

// write writes a value of the figure for people.
func (d *Difference) write(value float64) string {
	if d.metric.whole != nil {
		return output.Decimal(value) + "%"
	}
	return d.metric.write(value)
}

// base is the figure of the base runs: of several, from the least to the greatest.
func (d *Difference) base() string {
	if d.BaseLeast == nil {
		return d.write(d.Base)
	}
	least, most := d.write(*d.BaseLeast), d.write(*d.BaseMost)
	if least == most {
		return most
	}
	return least + " … " + most
}

// name is the metric for people.
func (d *Difference) name() string {
	switch d.Metric { // the words of a run's audit, whose "units over" is least_over_admitted
	case "over_admitted":
		return "admitted while over"
	case "under_admitted":
		return "denied while under"
	}
	return strings.ReplaceAll(d.metric.name, "_", " ")
}

// change is the difference as a share of the base; of a share it is in points.
func (d *Difference) change() string {
	switch difference := d.New - d.Base; {
	case difference == 0 || d.metric.whole == nil && d.Base == 0:
		return ""
	case d.metric.whole != nil:
		return fmt.Sprintf("%+.3g points", difference)
	default:
		return fmt.Sprintf("%+.1f%%", 100*difference/d.Base)
	}
}

// JUnit returns the comparison as JUnit XML: a test case for each figure that is judged.
func (c *Comparison) JUnit() []byte {
	var suites []junit.Suite
	for _, run := range c.Runs {
		var checks []check
		for i := range run.Differences {
			d := &run.Differences[i]
			one := check{name: d.Metric, verdict: Pass, words: []string{d.inWords()}}
			if d.Verdict == Worse {
				one.verdict = Fail
			}
			if d.Judged {
				checks = append(checks, one)
			}
		}
		suites = append(suites, junit.Suite{Name: run.Run, Cases: cases(run.Run, 0, checks...)})
	}
	return junit.XML(suites...)
}

// Markdown returns the comparison as a summary: the verdict, and what a terminal shows.
func (c *Comparison) Markdown() []byte {
	var b strings.Builder
	Heading(&b, c.Verdict, "comparison of "+output.Count(int64(len(c.Runs)), "run"))
	shown(&b, c)
	return []byte(b.String())
}

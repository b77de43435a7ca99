package report

import (
	"fmt"
	"math"
	"strings"

	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter"
)

// Comparison is how a new report differs from one to compare it with.
type Comparison struct {
	SchemaVersion int `json:"schema_version"`
	// Regressions is the number of differences whose verdict is [Worse].
	Regressions int `json:"regressions"`
	// Warnings say what makes the two hard to compare.
	Warnings []string        `json:"warnings"`
	Runs     []RunComparison `json:"runs"`
}

// RunComparison is the differences between two runs of the same limit.
type RunComparison struct {
	Run         string       `json:"run"` // its title
	Differences []Difference `json:"differences"`
}

// Difference is one figure of two runs.
type Difference struct {
	// Metric is its name, as in a threshold; shares of the requests end in "_percent",
	// and times in "_us".
	Metric  string  `json:"metric"`
	Base    float64 `json:"base"`
	New     float64 `json:"new"`
	Verdict Verdict `json:"verdict"`

	figure *comparedFigure
}

// Verdict is what a difference means.
type Verdict string

const (
	Same    Verdict = "same"    // no difference, or one within the noise
	Better  Verdict = "better"  // beyond the noise, an improvement
	Worse   Verdict = "worse"   // beyond the noise, a regression
	Changed Verdict = "changed" // beyond the noise, neither good nor bad by itself
)

// Compare compares runs of the same limit in two reports. It is a
// [limiter.ErrInvalid] if there are none.
//
// A difference is noise if it is within the margin, or too small for any clock. If there
// are histograms, the confidence intervals of two quantiles must not overlap either: the
// p99.9 of a short run is uncertain. The audit has no margin: one more unit admitted than
// before is a regression.
func Compare(base, latest Named, margins Margins) (*Comparison, error) {
	c := &Comparison{SchemaVersion: output.SchemaVersion, Warnings: []string{}, Runs: []RunComparison{}}
	if base.Kind != latest.Kind {
		c.warn("%s is a %s and %s a %s", base.Name, base.Kind, latest.Name, latest.Kind)
	}
	for _, d := range []Named{base, latest} {
		if d.Interrupted {
			c.warn("%s was interrupted", d.Name)
		}
	}
	for _, match := range c.match(base, latest) {
		was, is := match[0], match[1]
		title := is.Title()
		c.differentLoads(title, was, is)
		run := RunComparison{Run: title, Differences: []Difference{}}
		for _, figure := range comparedFigures() {
			before, had := figure.of(was)
			after, has := figure.of(is)
			if !had || !has || figure.isRare && before == 0 && after == 0 {
				continue
			}
			d := Difference{Metric: figure.metric, Base: before, New: after, figure: figure}
			d.Verdict = figure.verdict(before, after, margins)
			if d.Verdict != Same && !figure.certain(was, is) {
				d.Verdict = Same
			}
			if d.Verdict == Worse {
				c.Regressions++
			}
			run.Differences = append(run.Differences, d)
		}
		c.Runs = append(c.Runs, run)
	}
	if len(c.Runs) == 0 {
		return nil, limiter.Invalidf("no run of %s is of the same limit as one of %s; compare reports of the same test", latest.Name, base.Name)
	}
	return c, nil
}

func (c *Comparison) warn(format string, args ...any) {
	c.Warnings = append(c.Warnings, fmt.Sprintf(format, args...))
}

// match pairs the runs with the same title. Two single runs are always a pair.
func (c *Comparison) match(base, latest Named) (pairs [][2]*Run) {
	if len(base.Runs) == 1 && len(latest.Runs) == 1 {
		was, is := &base.Runs[0], &latest.Runs[0]
		if was.Title() != is.Title() {
			c.warn("the limits differ: %s and %s", was.Title(), is.Title())
		}
		return [][2]*Run{{was, is}}
	}
	taken := make([]bool, len(base.Runs))
next:
	for i := range latest.Runs {
		for j := range base.Runs {
			if !taken[j] && base.Runs[j].Title() == latest.Runs[i].Title() {
				taken[j] = true
				pairs = append(pairs, [2]*Run{&base.Runs[j], &latest.Runs[i]})
				continue next
			}
		}
		c.warn("%s is in %s only", latest.Runs[i].Title(), latest.Name)
	}
	for j := range base.Runs {
		if !taken[j] {
			c.warn("%s is in %s only", base.Runs[j].Title(), base.Name)
		}
	}
	return pairs
}

// differentLoads warns of what makes two runs hard to compare.
func (c *Comparison) differentLoads(title string, was, is *Run) {
	for _, what := range []struct {
		name string
		of   func(*Run) string
	}{
		{"load", func(r *Run) string { return r.Load }},
		{"rate", func(r *Run) string { return perSecond(r.Rate) }},
		{"number of keys", func(r *Run) string { return output.Thousands(r.Keys) }},
		{"scenario", func(r *Run) string { return r.Scenario }},
		{"number of workers", func(r *Run) string { return output.Thousands(int64(r.Workers)) }},
		{"implementation", func(r *Run) string { return r.Implementation }},
		{"store", func(r *Run) string { return r.Store }},
	} {
		if before, after := what.of(was), what.of(is); before != after {
			c.warn("%s: the %s differs: %s, and now %s", title, what.name, orNone(before), orNone(after))
		}
	}
	const tolerance = 0.05
	if before, after := float64(was.DurationMS), float64(is.DurationMS); math.Abs(after-before) > tolerance*before {
		c.warn("%s: the duration differs: %s, and now %s", title,
			output.Duration(milliseconds(was.DurationMS)), output.Duration(milliseconds(is.DurationMS)))
	}
	if was.GeneratorLimited || is.GeneratorLimited {
		c.warn("%s: the load generator was the limit, not the store", title)
	}
}

func orNone(text string) string {
	if text == "" {
		return "none"
	}
	return text
}

// Document implements [output.Answer].
func (c *Comparison) Document() any { return c }

// Lines implements [output.Answer]: a line for each run.
func (c *Comparison) Lines() []any {
	lines := []any{}
	for _, run := range c.Runs {
		lines = append(lines, run)
	}
	return lines
}

// Records implements [output.Answer]: a row for each figure.
func (c *Comparison) Records() [][]string {
	records := [][]string{{"run", "metric", "base", "new", "verdict"}}
	for _, run := range c.Runs {
		for _, d := range run.Differences {
			records = append(records, []string{run.Run, d.Metric, float(d.Base), float(d.New), string(d.Verdict)})
		}
	}
	return records
}

// Print implements [output.Answer]: the table of each run, and at the end, where people
// look first, a line for each regression.
func (c *Comparison) Print(p *output.Printer) {
	for _, warning := range c.Warnings {
		say(p, finding{output.Near, warning})
	}
	styles := map[Verdict]output.Style{Better: output.Calm, Worse: output.AtEnd, Changed: output.Near}
	for i, run := range c.Runs {
		if i > 0 || len(c.Warnings) > 0 {
			fmt.Fprintln(p.Out)
		}
		fmt.Fprintln(p.Out, output.Cut(output.Printable(run.Run), max(p.Width, 80)))
		columns := []output.Column{
			{Header: "METRIC", Shrinks: 12}, {Header: "BASE", Right: true}, {Header: "NEW", Right: true},
			{Header: "CHANGE", Right: true, Drops: 1}, {Header: ""},
		}
		var rows [][]output.Cell
		for _, d := range run.Differences {
			word := string(d.Verdict)
			if d.Verdict == Same {
				word = ""
			}
			rows = append(rows, []output.Cell{
				{Text: d.name()}, {Text: d.figure.write(d.Base)}, {Text: d.figure.write(d.New)}, {Text: d.change()},
				{Text: word, Style: styles[d.Verdict]},
			})
		}
		p.Table(columns, rows)
	}
	fmt.Fprintln(p.Out)
	for _, run := range c.Runs {
		for _, d := range run.Differences {
			if d.Verdict == Worse {
				text := fmt.Sprintf("%s: %s is %s, and was %s",
					output.Printable(run.Run), d.name(), d.figure.write(d.New), d.figure.write(d.Base))
				if change := d.change(); change != "" {
					text += " (" + change + ")"
				}
				say(p, finding{output.AtEnd, text})
			}
		}
	}
	if c.Regressions == 0 {
		say(p, finding{output.Calm, "no regression"})
	}
}

// name is the metric for people. The unit is left to the values.
func (d *Difference) name() string {
	metric := strings.TrimSuffix(d.Metric, "_percent")
	if d.figure.quantile > 0 || strings.HasSuffix(metric, "_cpu_us") {
		metric = strings.TrimSuffix(metric, "_us")
	}
	if strings.HasSuffix(metric, "_cpu") {
		metric += " µs"
	}
	return strings.ReplaceAll(metric, "_", " ")
}

// change is the difference as a share of the base. For shares it is in points.
func (d *Difference) change() string {
	switch difference := d.New - d.Base; {
	case difference == 0:
		return ""
	case strings.HasSuffix(d.Metric, "_percent"):
		return fmt.Sprintf("%+.3g points", difference)
	case d.Base == 0:
		return ""
	default:
		percent := 100 * difference / d.Base
		if math.Abs(percent) < 0.1 {
			return fmt.Sprintf("%+.0g%%", percent)
		}
		return fmt.Sprintf("%+.1f%%", percent)
	}
}

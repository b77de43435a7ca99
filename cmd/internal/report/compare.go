package report

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Comparison is how a new report differs from those to compare it with.
type Comparison struct {
	SchemaVersion int `json:"schema_version"`
	// Verdict is [Fail] if there are regressions, and else [Pass].
	Verdict Verdict `json:"verdict"`
	// Regressions is the number of differences whose verdict is [Worse].
	Regressions int `json:"regressions"`
	// Warnings say what makes them hard to compare.
	Warnings []string        `json:"warnings"`
	Runs     []RunComparison `json:"runs"`
}

// RunComparison is the differences between two runs of the same limit.
type RunComparison struct {
	Run         string       `json:"run"` // its title
	Differences []Difference `json:"differences"`
}

// Difference is one figure of the new run and of those to compare it with.
type Difference struct {
	// Metric is its name, as in a threshold; shares of the requests end in "_percent",
	// and times in "_us".
	Metric string `json:"metric"`
	// Base is the figure of the base run; of several, the middle one. BaseLeast and BaseMost
	// are the least and the greatest then.
	Base      float64  `json:"base"`
	BaseLeast *float64 `json:"base_least,omitempty"`
	BaseMost  *float64 `json:"base_most,omitempty"`
	New       float64  `json:"new"`
	Verdict   Verdict  `json:"verdict"`
	// Judged: it can be a regression. It is not judged if others were named, or if the
	// machine was too busy to tell. It is at most [Changed] then.
	Judged bool `json:"judged"`

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

// CompareOptions say how to compare.
type CompareOptions struct {
	Margins Margins
	// Only are the metrics that are judged; all if there are none.
	Only []string
}

// ComparedMetrics are the names of all metrics that a comparison can judge.
func ComparedMetrics() []string {
	var names []string
	for _, figure := range comparedFigures() {
		if figure.good != 0 {
			names = append(names, figure.name())
		}
	}
	return names
}

// Compare compares runs of the same limit in a report with those in one or more base
// reports. It is a [store.ErrInvalid] if there are none.
//
// A difference is noise if it is within the margin, too small for any clock, or no more
// than the runs differ in themselves and from one another; see [comparedFigure.certain].
// The audit has no margin: one more unit admitted than in any base run is a regression.
func Compare(bases []Named, latest Named, o CompareOptions) (*Comparison, error) {
	c := &Comparison{SchemaVersion: output.SchemaVersion, Verdict: Pass, Warnings: []string{}, Runs: []RunComparison{}}
	for _, d := range append(slices.Clone(bases), latest) {
		if d.Kind != latest.Kind {
			c.warn("%s is a %s and %s a %s", d.Name, d.Kind, latest.Name, latest.Kind)
		}
		if d.Interrupted {
			c.warn("%s was interrupted", d.Name)
		}
	}
	for _, match := range c.match(bases, latest) {
		c.compare(match, o)
	}
	if len(c.Runs) == 0 {
		names := make([]string, len(bases))
		for i := range bases {
			names[i] = bases[i].Name
		}
		return nil, store.Invalidf("no run of %s is of the same limit as one of %s; compare reports of the same test",
			latest.Name, strings.Join(names, " and "))
	}
	if c.Regressions > 0 {
		c.Verdict = Fail
	}
	return c, nil
}

// matched is a run of the new report, and those of the base reports that are of the same
// limit.
type matched struct {
	is    *Run
	bases []*Run
}

// compare adds the differences of a run.
func (c *Comparison) compare(m matched, o CompareOptions) {
	title := m.is.Title()
	for i, base := range m.bases {
		c.differentLoads(title, i, len(m.bases), base, m.is)
	}
	was, now, tooBusy := busier(m.bases, m.is)
	if tooBusy {
		word := "busier"
		if now < was {
			word = "less busy"
		}
		c.warn("%s: the machine was %s in the new run: the generator's own lag was %s at p90, and is %s; times, throughput and costs "+
			"are shown, but not judged", title, word, micros(was), micros(now))
	}
	run := RunComparison{Run: title, Differences: []Difference{}}
	for _, figure := range comparedFigures() {
		var bases []measured
		for _, base := range m.bases {
			if value, has := figure.of(base); has {
				bases = append(bases, measured{base, value})
			}
		}
		after, has := figure.of(m.is)
		if len(bases) == 0 || !has || figure.isRare && after == 0 && !slices.ContainsFunc(bases, func(b measured) bool { return b.value != 0 }) {
			continue
		}
		d := figure.difference(bases, measured{m.is, after}, o.Margins)
		d.Judged = figure.good != 0 && (len(o.Only) == 0 || slices.Contains(o.Only, figure.name())) && !(tooBusy && figure.noise != exact)
		if !d.Judged && d.Verdict != Same {
			d.Verdict = Changed
		}
		if d.Verdict == Worse {
			c.Regressions++
		}
		run.Differences = append(run.Differences, d)
	}
	c.Runs = append(c.Runs, run)
}

// difference holds a figure against those of the base runs.
func (c *comparedFigure) difference(bases []measured, after measured, margins Margins) Difference {
	slices.SortStableFunc(bases, byValue)
	least, most := bases[0].value, bases[len(bases)-1].value
	d := Difference{Metric: c.metric, Base: bases[len(bases)/2].value, New: after.value, Verdict: Same, figure: c}
	if len(bases) > 1 {
		d.BaseLeast, d.BaseMost = &least, &most
	}
	near := least
	switch {
	case after.value > most:
		near = most
	case after.value >= least:
		return d
	}
	if verdict := c.verdict(near, after.value, margins); verdict != Same && c.certain(bases, near, after) {
		d.Verdict = verdict
	}
	return d
}

func (c *Comparison) warn(format string, args ...any) {
	c.Warnings = append(c.Warnings, fmt.Sprintf(format, args...))
}

// match finds the runs with the same title. Single runs always match.
func (c *Comparison) match(bases []Named, latest Named) []matched {
	all := make([]matched, len(latest.Runs))
	for i := range latest.Runs {
		all[i].is = &latest.Runs[i]
	}
	for _, base := range bases {
		if len(base.Runs) == 1 && len(latest.Runs) == 1 {
			was, is := &base.Runs[0], &latest.Runs[0]
			if was.Title() != is.Title() {
				c.warn("the limits differ: %s and %s", was.Title(), is.Title())
			}
			all[0].bases = append(all[0].bases, was)
			continue
		}
		taken := make([]bool, len(base.Runs))
	next:
		for i := range latest.Runs {
			for j := range base.Runs {
				if !taken[j] && base.Runs[j].Title() == latest.Runs[i].Title() {
					taken[j] = true
					all[i].bases = append(all[i].bases, &base.Runs[j])
					continue next
				}
			}
			c.warn("%s is in %s and not in %s", latest.Runs[i].Title(), latest.Name, base.Name)
		}
		for j := range base.Runs {
			if !taken[j] {
				c.warn("%s is in %s and not in %s", base.Runs[j].Title(), base.Name, latest.Name)
			}
		}
	}
	return slices.DeleteFunc(all, func(m matched) bool { return len(m.bases) == 0 })
}

// differentLoads warns of what makes two runs hard to compare.
func (c *Comparison) differentLoads(title string, base, bases int, was, is *Run) {
	if bases > 1 {
		title += fmt.Sprintf(", base %d", base+1)
	}
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

// Print implements [output.Answer]: the verdict with its reasons, what makes it doubtful,
// and the table of each run.
func (c *Comparison) Print(p *output.Printer) {
	worse := c.worse()
	if c.Verdict == Fail {
		printLabelled(p, "FAIL", output.AtEnd, worse)
	} else {
		printLabelled(p, "PASS", output.Calm, []string{"no regression"})
	}
	for _, warning := range c.Warnings {
		say(p, finding{output.Near, warning})
	}
	styles := map[Verdict]output.Style{Better: output.Calm, Worse: output.AtEnd, Changed: output.Near}
	for _, run := range c.Runs {
		fmt.Fprintln(p.Out)
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
				{Text: d.name()}, {Text: d.base()}, {Text: d.figure.write(d.New)}, {Text: d.change()},
				{Text: word, Style: styles[d.Verdict]},
			})
		}
		p.Table(columns, rows)
	}
}

// worse says what became worse, what does not depend on the machine first.
func (c *Comparison) worse() (all []string) {
	var noisy []string
	for _, run := range c.Runs {
		for i := range run.Differences {
			d := &run.Differences[i]
			if d.Verdict != Worse {
				continue
			}
			text := d.inWords()
			if len(c.Runs) > 1 {
				text = run.Run + ": " + text
			}
			if d.figure.noise == exact {
				all = append(all, text)
			} else {
				noisy = append(noisy, text)
			}
		}
	}
	return append(all, noisy...)
}

// inWords says what the figure is, and what it was.
func (d *Difference) inWords() string {
	text := fmt.Sprintf("%s is %s, and was %s", d.name(), d.figure.write(d.New), d.base())
	if change := d.change(); change != "" {
		text += " (" + change + ")"
	}
	return text
}

// base is the figure of the base runs: of several, from the least to the greatest.
func (d *Difference) base() string {
	if d.BaseLeast == nil || *d.BaseLeast == *d.BaseMost {
		return d.figure.write(d.Base)
	}
	least, most := d.figure.write(*d.BaseLeast), d.figure.write(*d.BaseMost)
	if least == most {
		return most
	}
	return least + " … " + most
}

// name is the metric without its unit, as in a threshold.
func (c *comparedFigure) name() string {
	return strings.TrimSuffix(strings.TrimSuffix(c.metric, "_percent"), "_us")
}

// name is the metric for people. The unit is left to the values.
func (d *Difference) name() string {
	metric := d.figure.name()
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

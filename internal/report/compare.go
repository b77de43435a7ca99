package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/limitctl/limitctl/internal/junit"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Comparison is how a new report differs from those to compare it with.
type Comparison struct {
	SchemaVersion int `json:"schema_version"`
	// Verdict is [report.Fail] if there are regressions, and else [report.Pass].
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
	Metric  string  `json:"metric"`
	Base    float64 `json:"base"` // of several base runs the one that is nearest to New
	New     float64 `json:"new"`
	Verdict Verdict `json:"verdict"`

	metric *metric
}

const (
	Same   Verdict = "same"   // no difference, or one within the margin
	Better Verdict = "better" // an improvement
	Worse  Verdict = "worse"  // a regression
)

// figures are all that is compared, in the order of the table: first what does not depend on the machine.
var figures = []struct {
	metric    string
	more      bool // is better
	hasMargin bool
}{
	{"worst_window_ratio", false, false}, {"over_admitted", false, false}, {"under_admitted", false, false},
	{"errors", false, false}, {"fairness", true, true}, {"p50", false, true}, {"p99", false, true},
	{"throughput", true, true},
}

// Compare compares runs of the same limit in a report with those in one or more base
// reports. It is a [store.ErrInvalid] if there are none, or a report is of an interrupted run.
//
// A figure differs if it is outside of what the base runs had, by more than the margin: a share of the base figure. The
// audit and errors have no margin: one more is a regression.
func Compare(bases []Named, latest Named, margin float64) (*Comparison, error) {
	c := &Comparison{SchemaVersion: output.SchemaVersion, Verdict: Pass, Warnings: []string{}, Runs: []RunComparison{}}
	for _, d := range append(slices.Clone(bases), latest) {
		if d.Kind != latest.Kind {
			c.warn("%s is a %s and %s a %s", d.Name, d.Kind, latest.Name, latest.Kind)
		}
		if d.Interrupted {
			return nil, store.Invalidf("%s was interrupted; give reports of whole runs", d.Name)
		}
	}
	for i := range latest.Runs {
		if of := c.basesOf(bases, latest, i); len(of) > 0 {
			c.compare(of, &latest.Runs[i], margin)
		}
	}
	if len(c.Runs) == 0 {
		return nil, store.Invalidf("the reports are of different limits: %s, and %s", limitsOf(latest),
			limitsOf(bases...))
	}
	if c.Regressions > 0 {
		c.Verdict = Fail
	}
	return c, nil
}

// limitsOf names reports and what they are of.
func limitsOf(reports ...Named) string {
	var all []string
	for _, d := range reports {
		titles := []string{}
		for i := range d.Runs {
			titles = append(titles, shortName(d.Runs[i].Title()))
		}
		all = append(all, fmt.Sprintf("%s of %s", d.Name, cmp.Or(strings.Join(titles, ", "), "no run")))
	}
	return strings.Join(all, ", ")
}

// basesOf finds the runs of the limit of run i of the new report, at its place if there are several.
func (c *Comparison) basesOf(bases []Named, latest Named, i int) (all []*Run) {
	is := &latest.Runs[i]
	same := func(r Run) bool { return r.Algorithm == is.Algorithm && r.Limit == is.Limit && r.Policy == is.Policy }
	for _, base := range bases {
		at := i
		if i >= len(base.Runs) || !same(base.Runs[i]) {
			at = slices.IndexFunc(base.Runs, same)
		}
		if at < 0 {
			c.warn("%s is in %s and not in %s", is.Title(), latest.Name, base.Name)
			continue
		}
		all = append(all, &base.Runs[at])
	}
	return all
}

// compare adds the differences of a run.
func (c *Comparison) compare(bases []*Run, is *Run, margin float64) {
	limited := is.GeneratorLimited
	for _, was := range bases {
		c.differentLoads(was, is)
		limited = limited || was.GeneratorLimited
	}
	if limited {
		c.warn("%s: the load generator was the limit, not the store; times and throughput are not compared", is.Title())
	}
	run := RunComparison{Run: is.Title(), Differences: []Difference{}}
	for _, f := range figures {
		m := metricNamed(f.metric)
		var before []float64
		for _, was := range bases {
			if value, has := m.inComparison(was); has {
				before = append(before, value)
			}
		}
		after, has := m.inComparison(is)
		if len(before) == 0 || !has || limited && m.ofMachine {
			continue
		}
		d := m.difference(before, after, margin*map[bool]float64{true: 1}[f.hasMargin], f.more)
		if d.Verdict == Worse {
			c.Regressions++
		}
		run.Differences = append(run.Differences, d)
	}
	c.Runs = append(c.Runs, run)
}

// inComparison returns the figure of a run as it is compared: what has a whole is a percentage of it.
func (m *metric) inComparison(r *Run) (value float64, has bool) {
	value, has = m.of(r)
	if m.whole != nil {
		whole := m.whole(r)
		return 100 * value / float64(max(whole, 1)), whole > 0
	}
	return value, has && (m.name != "throughput" || r.Latency != nil)
}

// difference compares a figure with those of the base runs.
func (m *metric) difference(bases []float64, after, margin float64, more bool) Difference {
	nearest := slices.MinFunc(bases, func(a, b float64) int {
		return cmp.Compare(math.Abs(a-after), math.Abs(b-after))
	})
	d := Difference{Metric: m.name, Base: nearest, New: after, Verdict: Worse, metric: m}
	if m.whole != nil {
		d.Metric += "_percent"
	} else if m.unit == duration {
		d.Metric += "_us"
	}
	switch difference := after - nearest; {
	case math.Abs(difference) <= margin*nearest, m.unit == ratio && nearest <= 1 && after <= 1, // near, or good enough
		slices.Min(bases) <= after && after <= slices.Max(bases):
		d.Verdict = Same
	case (difference > 0) == more:
		d.Verdict = Better
	}
	return d
}

func (c *Comparison) warn(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(c.Warnings, text) {
		c.Warnings = append(c.Warnings, text)
	}
}

// differentLoads warns of what makes two runs hard to compare.
func (c *Comparison) differentLoads(was, is *Run) {
	of := func(r Run) string {
		r.DurationMS = (r.DurationMS + 500) / 1000 * 1000
		return strings.TrimSpace(loadInWords(&r, LoadTest) + " " + strings.TrimPrefix(r.Implementation, "script"))
	}
	if before, now := of(*was), of(*is); before != now {
		c.warn("%s: the load differs: %s, and now %s", is.Title(), before, now)
	}
}

// Items implements [output.Answer]: a line for each run.
func (c *Comparison) Items() any { return c.Runs }

// Records implements [output.Answer]: a row for each figure.
func (c *Comparison) Records() [][]string {
	type row struct {
		Run string `json:"run"`
		Difference
	}
	var rows []row
	for _, run := range c.Runs {
		for _, d := range run.Differences {
			rows = append(rows, row{run.Run, d})
		}
	}
	return output.Rows(rows)
}

// Print implements [output.Answer]: the verdict with its reasons, what makes it doubtful, and the table of each run.
func (c *Comparison) Print(p *output.Printer) {
	s := screen{Printer: p}
	var worse []string
	for _, suite := range c.Summary().Suites {
		for _, one := range suite.Cases {
			if one.Failed != "" && len(c.Runs) > 1 {
				worse = append(worse, suite.Name+": "+one.Failed)
			} else if one.Failed != "" {
				worse = append(worse, one.Failed)
			}
		}
	}
	if c.Verdict == Fail {
		s.labelled("FAIL", output.AtEnd, output.AtEnd, shortened(worse, mostReasons)...)
	} else {
		s.labelled("PASS", output.Calm, output.Plain, "no regression")
	}
	for _, warning := range c.Warnings {
		s.say(finding{style: output.Near, text: warning})
	}
	columns := []output.Column{{Header: "METRIC", Shrinks: 12}, {Header: "BASE", Right: true},
		{Header: "NEW", Right: true},
		{Header: "CHANGE", Right: true, Drops: 1}, {Header: ""}}
	for _, run := range c.Runs {
		s.lines = append(s.lines, "")
		s.labelled("", output.Plain, output.Plain, shortName(run.Run))
		var rows [][]output.Cell
		for i := range run.Differences {
			d := &run.Differences[i]
			verdict := map[Verdict]output.Cell{
				Better: {Text: "better"}, Worse: {Text: "worse", Style: output.AtEnd}}[d.Verdict]
			rows = append(rows, []output.Cell{{Text: d.name()}, {Text: d.write(d.Base)}, {Text: d.write(d.New)},
				{Text: d.change()}, verdict})
		}
		s.lines = append(s.lines, s.TableLines(columns, rows)...)
	}
	s.flush()
}

// Summary returns the summary of the comparison: a test case for each figure.
func (c *Comparison) Summary() *Summary {
	s := &Summary{Verdict: c.Verdict, What: "comparison of " + output.Count(int64(len(c.Runs)), "run"), Answer: c}
	for _, run := range c.Runs {
		suite := junit.Suite{Name: run.Run}
		for i := range run.Differences {
			d := &run.Differences[i]
			text := fmt.Sprintf("%s is %s, and was %s", d.name(), d.write(d.New), d.write(d.Base))
			if change := d.change(); change != "" {
				text += " (" + change + ")"
			}
			one := junit.Case{Name: d.Metric, Said: text}
			if d.Verdict == Worse {
				one = junit.Case{Name: d.Metric, Failed: text}
			}
			suite.Cases = append(suite.Cases, one)
		}
		s.Suites = append(s.Suites, suite)
	}
	return s
}

// write writes a value of the figure for people.
func (d *Difference) write(value float64) string {
	if d.metric.whole != nil {
		return output.Decimal(value) + "%"
	}
	return d.metric.write(value)
}

// name is the metric for people.
func (d *Difference) name() string { return strings.ReplaceAll(d.metric.name, "_", " ") }

// change is the difference as a share of the base; a share has none.
func (d *Difference) change() string {
	if d.New == d.Base || d.metric.whole != nil || d.Base == 0 {
		return ""
	}
	return fmt.Sprintf("%+.1f%%", 100*(d.New-d.Base)/d.Base)
}

// Package compare finds what became worse from one report to another, and tells it from noise.
package compare

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/cmd/internal/report"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Comparison is how a new report differs from those to compare it with.
type Comparison struct {
	SchemaVersion int `json:"schema_version"`
	// Verdict is [Fail] if there are regressions, and else [Pass].
	Verdict report.Verdict `json:"verdict"`
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
	Base      float64        `json:"base"`
	BaseLeast *float64       `json:"base_least,omitempty"` // the least of several base runs
	BaseMost  *float64       `json:"base_most,omitempty"`  // the greatest of them
	New       float64        `json:"new"`
	Verdict   report.Verdict `json:"verdict"`
	// Judged: it can be a regression. It is not judged if others were named, or if the
	// machine was too busy to tell. It is at most [Changed] then.
	Judged bool `json:"judged"`

	figure *comparedFigure
}

const (
	Same    report.Verdict = "same"    // no difference, or one within the noise
	Better  report.Verdict = "better"  // beyond the noise, an improvement
	Worse   report.Verdict = "worse"   // beyond the noise, a regression
	Changed report.Verdict = "changed" // beyond the noise, neither good nor bad by itself
)

// Options say how to compare.
type Options struct {
	Margins Margins
	// Only are the metrics that are judged; all if there are none.
	Only []string
}

// Metrics are the names of all metrics that a comparison can judge.
func Metrics() []string {
	var names []string
	for _, figure := range comparedFigures() {
		if figure.good != 0 {
			names = append(names, figure.name())
		}
	}
	return names
}

// Reports compares runs of the same limit in a report with those in one or more base
// reports. It is a [store.ErrInvalid] if there are none.
//
// A difference is noise if it is within the margin, too small for any clock, or no more
// than the runs differ in themselves and from one another; see [comparedFigure.certain].
// The audit has no margin: one more unit admitted than in any base run is a regression.
func Reports(bases []report.Named, latest report.Named, o Options) (*Comparison, error) {
	c := &Comparison{SchemaVersion: output.SchemaVersion, Verdict: report.Pass, Warnings: []string{}, Runs: []RunComparison{}}
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
		c.Verdict = report.Fail
	}
	return c, nil
}

// matched is a run of the new report, and those of the base reports that are of the same
// limit.
type matched struct {
	is    *report.Run
	bases []*report.Run
}

// compare adds the differences of a run.
func (c *Comparison) compare(m matched, o Options) {
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
			"are shown, but not judged", title, word, output.Micros(was), output.Micros(now))
	}
	disturbed := c.disturbed(title, m)
	run := RunComparison{Run: title, Differences: []Difference{}}
	for _, figure := range comparedFigures() {
		var bases []measured
		for _, base := range m.bases {
			if value, has := figure.of(base); has {
				bases = append(bases, measured{base, value})
			}
		}
		after, has := figure.of(m.is)
		if len(bases) == 0 || !has || figure.isRare && after == 0 &&
			!slices.ContainsFunc(bases, func(b measured) bool { return b.value != 0 }) {
			continue
		}
		if alone := undisturbed(bases); figure.ofServer && len(alone) > 0 {
			bases = alone
		}
		d := figure.difference(bases, measured{m.is, after}, o.Margins)
		d.Judged = figure.good != 0 && (len(o.Only) == 0 || slices.Contains(o.Only, figure.name())) &&
			!(tooBusy && figure.noise != exact) && !(disturbed && figure.ofServer)
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

// disturbed reports whether others used the server in the new run or in all base runs, so that what it counted is
// partly theirs, and warns of it.
func (c *Comparison) disturbed(title string, m matched) bool {
	others := func(r *report.Run) bool { return r.Cost != nil && r.Cost.Others > 0 }
	which := ""
	switch {
	case others(m.is):
		which = "the new run"
	case !slices.ContainsFunc(m.bases, func(r *report.Run) bool { return !others(r) }):
		which = "each base run"
	default:
		return false
	}
	c.warn("%s: others used the server in %s; what it counted is shown, but not judged", title, which)
	return true
}

func (c *Comparison) warn(format string, args ...any) {
	c.Warnings = append(c.Warnings, fmt.Sprintf(format, args...))
}

// match finds the runs with the same title. Single runs always match.
func (c *Comparison) match(bases []report.Named, latest report.Named) []matched {
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
func (c *Comparison) differentLoads(title string, base, bases int, was, is *report.Run) {
	if bases > 1 {
		title += fmt.Sprintf(", base %d", base+1)
	}
	for _, what := range []struct {
		name string
		of   func(*report.Run) string
	}{
		{"load", func(r *report.Run) string { return r.Load }},
		{"rate", func(r *report.Run) string { return output.PerSecond(r.Rate) }},
		{"number of keys", func(r *report.Run) string { return output.Thousands(r.Keys) }},
		{"scenario", func(r *report.Run) string { return r.Scenario }},
		{"number of workers", func(r *report.Run) string { return output.Thousands(int64(r.Workers)) }},
		{"implementation", func(r *report.Run) string { return r.Implementation }},
		{"store", func(r *report.Run) string { return r.Store }},
	} {
		if before, after := what.of(was), what.of(is); before != after {
			c.warn("%s: the %s differs: %s, and now %s", title, what.name, cmp.Or(before, "none"), cmp.Or(after, "none"))
		}
	}
	const tolerance = 0.05
	if before, after := float64(was.DurationMS), float64(is.DurationMS); math.Abs(after-before) > tolerance*before {
		c.warn("%s: the duration differs: %s, and now %s", title,
			output.Duration(report.FromMS(was.DurationMS)), output.Duration(report.FromMS(is.DurationMS)))
	}
	if was.GeneratorLimited || is.GeneratorLimited {
		c.warn("%s: the load generator was the limit, not the store", title)
	}
}

// name is the metric without its unit, as in a threshold.
func (c *comparedFigure) name() string {
	return strings.TrimSuffix(strings.TrimSuffix(c.metric, "_percent"), "_us")
}

package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Named is a document and the file that it is from.
type Named struct {
	Name string
	*Document
}

// The most of each that a document lists.
const (
	MostGroups     = 200
	MostDeniedKeys = 10
	mostErrorTexts = 5
)

// Merge makes one load test of several that machines ran at the same time, each with keys of
// its own or all with the same. What was answered about the same keys is audited together.
// Histograms are merged, so the quantiles are those of all requests together. The result
// is judged by the thresholds of all of them. Reports that cannot be merged are a
// [store.ErrInvalid].
func Merge(all []Named) (*Document, error) { return MergeApart(all, ClocksApart) }

// ClocksApart is the default of how much the clocks of machines differ that drove one endpoint: far more than NTP leaves.
const ClocksApart = 100 * time.Millisecond

// MergeApart is as [Merge] for machines whose clocks differ by at most a time. Only runs on an endpoint depend on it: a
// store says itself when it decided.
func MergeApart(all []Named, apart time.Duration) (*Document, error) {
	first := all[0]
	merged := New(first.Kind)
	for i, d := range all {
		if err := mergeable(first, d); err != nil {
			return nil, err
		}
		for _, before := range all[:i] {
			if err := shareable(before, d); err != nil {
				return nil, err
			}
		}
		merged.Interrupted = merged.Interrupted || d.Interrupted
		if share := d.mayFail(); share < merged.mayFail() || merged.MaxErrors == nil {
			merged.MaxErrors = &share
		}
	}
	for i := range first.Runs {
		runs := make([]machineRun, len(all))
		for j, d := range all {
			runs[j] = machineRun{d.Name, &d.Runs[i]}
		}
		run, err := mergeRuns(runs)
		if err != nil {
			return nil, err
		}
		merged.Runs = append(merged.Runs, *run)
	}
	if err := merged.auditTogether(all, apart); err != nil {
		return nil, err
	}
	return merged, merged.holdAgain(all)
}

// holdAgain judges the merged document by the thresholds of all documents. A threshold
// about a figure that could not be merged becomes a warning.
func (d *Document) holdAgain(all []Named) error {
	var expressions []Expression
	seen := map[string]bool{}
	for _, from := range all {
		for _, t := range from.Thresholds {
			if seen[t.Expression] {
				continue
			}
			seen[t.Expression] = true
			e, err := ParseThreshold(t.Expression)
			if err != nil {
				return store.Invalidf("%s: %v", from.Name, err)
			}
			lacks := func(r Run) bool { return e.metric.kind != duration && e.metric.of(&r.Figures) == nil }
			i := slices.IndexFunc(d.Runs, lacks)
			if i < 0 {
				expressions = append(expressions, e)
				continue
			}
			warning := fmt.Sprintf("threshold %q is not judged: it is about a figure that could not be merged", e)
			d.Runs[i].Warnings = append(d.Runs[i].Warnings, warning)
		}
	}
	_, err := d.Evaluate(expressions)
	return err
}

func mergeable(a, b Named) error {
	switch {
	case b.Kind != LoadTest:
		return store.Invalidf("%s is a simulation; only load tests are merged", b.Name)
	case len(a.Runs) != len(b.Runs):
		return store.Invalidf("%s has %s and %s has %s; merge reports of the same test",
			a.Name, output.Count(int64(len(a.Runs)), "run"), b.Name, output.Count(int64(len(b.Runs)), "run"))
	}
	for i := range a.Runs {
		if ours, theirs := a.Runs[i].Title(), b.Runs[i].Title(); ours != theirs {
			return store.Invalidf("run %d is of %q in %s and of %q in %s; merge reports of the same test",
				i+1, ours, a.Name, theirs, b.Name)
		}
		if len(a.Runs[i].Limits) != len(b.Runs[i].Limits) {
			return store.Invalidf("run %d has %d limits in %s and %d in %s; merge reports of the same test",
				i+1, len(a.Runs[i].Limits), a.Name, len(b.Runs[i].Limits), b.Name)
		}
	}
	return nil
}

func mergeRuns(runs []machineRun) (*Run, error) {
	first := runs[0]
	run := &Run{
		Algorithm: first.Algorithm, Limit: first.Limit, Policy: first.Policy, Implementation: first.Implementation,
		Scenario: first.Scenario, LocalShare: first.LocalShare, StartedAt: first.StartedAt,
		Figures: Figures{Limits: slices.Clone(first.Limits)},
	}
	counted, end := first.counted(), first.end()
	var loads, stores []string
	for _, p := range runs {
		if p.StartedAt.Before(run.StartedAt) {
			run.StartedAt = p.StartedAt
		}
		if p.counted().Before(counted) {
			counted = p.counted()
		}
		if p.end().After(end) {
			end = p.end()
		}
		loads, stores = append(loads, p.Load), append(stores, p.Store)
		AddUp(run, p.Run)
		for _, warning := range p.Warnings {
			run.Warnings = append(run.Warnings, p.file+": "+warning)
		}
	}
	run.Load = fmt.Sprintf("%d machines: %s", len(runs), joined(loads))
	run.Store = joined(stores)
	run.DurationMS = end.Sub(run.StartedAt).Milliseconds()
	run.WarmupMS = counted.Sub(run.StartedAt).Milliseconds()
	if run.CountedMS() > 0 {
		run.ThroughputPerS = 1000 * float64(run.Allowed+run.Denied) / float64(run.CountedMS())
	}
	run.Warnings = append(run.Warnings, apart(runs)...)
	if err := run.mergeTimes(runs); err != nil {
		return nil, err
	}
	if err := run.mergeAnswers(runs); err != nil {
		return nil, err
	}
	audits := make([]*Audit, len(runs))
	for i := range runs {
		audits[i] = &runs[i].Audit
	}
	run.Audit = mergeAudits(audits)
	for i := range run.Limits {
		l := &run.Limits[i]
		l.Denied = 0
		for j := range runs {
			audits[j] = &runs[j].Limits[i].Audit
			l.Denied += runs[j].Limits[i].Denied
		}
		l.Audit = mergeAudits(audits)
	}
	run.Audit.LimitReached = leastReached(run.Limits)
	run.Clock = mergeClocks(runs)
	run.mergeCost(runs)
	run.mergeTimelines(runs)
	run.mergeKeys(runs)
	return run, nil
}

// joined lists texts, each of them once.
func joined(texts []string) string {
	var once []string
	for _, text := range texts {
		if !slices.Contains(once, text) {
			once = append(once, text)
		}
	}
	return strings.Join(once, " and ")
}

// apart warns of machines that did not work at the same time, by their clocks.
func apart(runs []machineRun) []string {
	var warnings []string
	for i, a := range runs {
		for _, b := range runs[i+1:] {
			if b.StartedAt.Before(a.StartedAt) {
				a, b = b, a
			}
			if gap := b.StartedAt.Sub(a.end()); gap >= 0 {
				warnings = append(warnings, fmt.Sprintf("%s began %s after %s had ended: they did not load the store together",
					b.file, gap.Round(time.Millisecond), a.file))
			}
		}
	}
	return warnings
}

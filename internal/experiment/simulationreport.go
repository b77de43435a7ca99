package experiment

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/internal/report"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/loadgen/audit"
)

// keyName is what to call a key of a policy: the attributes that its limit is by, and the limit's name.
func (r *simulationRun) keyName(key uint32) string {
	i, subject := r.result.OwnerOf(key)
	limit := &r.candidate.Policy.Limits[i]
	var values, names []string
	for n, name := range r.fields {
		if slices.Contains(limit.By, name) {
			values, names = append(values, r.result.Subjects.At(subject)[n]), append(names, name)
		}
	}
	return subjectName(values, names, true) + " (" + limit.Name + ")"
}

// hasKeysOfItsOwn reports whether limits of the policy are by other attributes than all of them together. Who asks often
// under many names is then one key of a limit, and many subjects.
func (r *simulationRun) hasKeysOfItsOwn() bool {
	return r.candidate.Policy != nil && len(r.candidate.Policy.Limits) > 1 &&
		slices.ContainsFunc(r.candidate.Policy.Limits, func(l policy.Limit) bool { return len(l.By) < len(r.fields) })
}

// report puts the result of a run in the terms of a report.
func (r *simulationRun) report() report.Run {
	result, tally := r.result, &r.result.Tally
	span := result.End.Time().Sub(result.Begin.Time())
	run := report.Run{
		Store: report.NoStore,
		Load: fmt.Sprintf("%d requests of %s by %s, from %s to %s", len(r.log.Trace.Requests), r.log.Name, strings.Join(r.fields, ", "),
			result.Begin.Time().Format(time.DateTime), result.End.Time().Format(time.DateTime)),
		StartedAt: result.Begin.Time(),
		Figures: report.Figures{
			Requests:   tally.Requests(),
			Allowed:    tally.Allowed(),
			Denied:     tally.Denied(),
			Keys:       tally.Keys(),
			KeysDenied: tally.KeysDenied(),
			DurationMS: output.Milliseconds(span),
		},
		IntervalMS: result.Interval.Milliseconds(),
		Timeline:   []report.Interval{},
		Warnings:   slices.Clone(r.log.Notes),
	}
	if span > 0 {
		run.Rate = float64(run.Requests) / span.Seconds()
		run.ThroughputPerS = run.Rate
	}
	for i, counts := range result.Timeline {
		run.Timeline = append(run.Timeline, report.Interval{OffsetMS: int64(i) * run.IntervalMS, Allowed: counts.Allowed,
			Denied: counts.Denied})
	}
	describeKeys(&run, tally, r.subjectName)
	if r.hasKeysOfItsOwn() {
		run.MostDenied = mostDenied(&result.Keys, r.keyName)
	}
	if r.candidate.Policy != nil {
		run.Policy = r.candidate.Policy.Name
	}
	limits := r.candidate.limits()
	findings := make([]audit.Finding, len(result.Limits))
	for i := range result.Limits {
		findings[i] = result.Limits[i].Audit
	}
	(&audited{limits: limits}).describe(&run, findings)
	if run.Wrapped = r.wrap; r.wrap != nil {
		run.Warnings = append(run.Warnings, wrapWarning(limits))
		for i := range run.Limits {
			run.Limits[i].Doubtful = true
		}
	}
	if result.NeverFits > 0 {
		run.Warnings = append(run.Warnings, fmt.Sprintf("%d of the denied requests cost more than the limit ever allows at once; "+
			"a store would refuse them as mistakes", result.NeverFits))
	}
	for i, limit := range result.Limits {
		if limit.MixedKeys > 0 {
			run.Warnings = append(run.Warnings, mixedWarning(int(limit.MixedKeys), limits[i].name))
			run.Limits[i].Doubtful = true
		}
	}
	return run
}

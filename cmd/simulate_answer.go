package cmd

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/cmd/internal/report"
	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/loadgen"
	"github.com/limitctl/limitctl/pkg/loadgen/audit"
	"github.com/limitctl/limitctl/pkg/loadgen/trace"
)

// How much a run tells of its keys.
const (
	mostDeniedKeys = 10
	heatGroups     = 200
)

// simulationRun puts the result of a simulation in the terms of a report. name is the
// log's, where the store that decided, if any did; warnings are those about the log.
func simulationRun(r *simulatedRun, log *trace.Trace, name, where string, warnings []string) report.Run {
	result, tally := r.result, &r.result.Tally
	span := result.End.Time().Sub(result.Begin.Time())
	run := report.Run{
		Store:      where,
		Load:       fmt.Sprintf("%d requests of %s by %s", len(log.Requests), name, strings.Join(r.names, ", ")),
		StartedAt:  result.Begin.Time(),
		Requests:   tally.Requests(),
		Allowed:    tally.Allowed(),
		Denied:     tally.Denied(),
		Keys:       tally.Keys(),
		KeysDenied: tally.KeysDenied(),
		DurationMS: output.Milliseconds(span),
		IntervalMS: result.Interval.Milliseconds(),
		Timeline:   []report.Interval{},
		Heat:       []report.HeatGroup{},
		MostDenied: []report.KeyCount{},
		Warnings:   slices.Clone(warnings),
	}
	if where == "" {
		run.Store = "none"
	}
	if span > 0 {
		run.Rate = float64(run.Requests) / span.Seconds()
		run.ThroughputPerS = run.Rate
	}
	for i, counts := range result.Timeline {
		run.Timeline = append(run.Timeline, report.Interval{OffsetMS: int64(i) * run.IntervalMS, Allowed: counts.Allowed, Denied: counts.Denied})
	}
	for _, group := range tally.Heat(heatGroups) {
		run.Heat = append(run.Heat, report.HeatGroup{Keys: group.Keys, Allowed: group.Allowed, Denied: group.Denied})
	}
	for _, count := range tally.MostDenied(mostDeniedKeys) {
		run.MostDenied = append(run.MostDenied, report.KeyCount{Key: r.subject(count.Subject), Allowed: count.Allowed, Denied: count.Denied})
	}
	r.describeLimits(&run)
	if result.NeverFits > 0 {
		run.Warnings = append(run.Warnings, fmt.Sprintf("%d of the denied requests cost more than the limit ever allows at once; a store would refuse them as mistakes", result.NeverFits))
	}
	for i, limit := range result.Limits {
		if limit.MixedKeys > 0 {
			run.Warnings = append(run.Warnings, fmt.Sprintf("%d keys of the limit %s were under different limits in turn, by overrides for attributes that the limit is not by; their audit is against the first", limit.MixedKeys, run.Limits[i].Name))
		}
	}
	if result.Disagreements > 0 {
		run.Warnings = append(run.Warnings, fmt.Sprintf("the store decided %d requests differently than Go", result.Disagreements))
	}
	return run
}

// describeLimits fills in what the limits are and what their audits found.
func (r *simulatedRun) describeLimits(run *report.Run) {
	limits, names, shadows := r.limits()
	var algorithms, texts []string
	var findings []audit.Finding
	for i, limit := range limits {
		result := &r.result.Limits[i]
		algorithm := limit.Algorithm.String()
		if !slices.Contains(algorithms, algorithm) {
			algorithms = append(algorithms, algorithm)
		}
		text := limit.String()
		if shadows[i] {
			text += " (shadow)"
		}
		texts = append(texts, text)
		run.Limits = append(run.Limits, report.Limit{
			Name: names[i], Algorithm: algorithm, Limit: limit.String(), Shadow: shadows[i],
			Denied: result.Denied, Audit: reportAudit(result.Audit),
		})
		if !shadows[i] {
			findings = append(findings, result.Audit)
		}
	}
	run.Algorithm, run.Limit = strings.Join(algorithms, "+"), strings.Join(texts, " and ")
	if r.policy != nil {
		run.Policy = r.policy.Name
	}
	run.Audit = reportAudit(findings...)
}

// limits returns the limits that were decided together, without overrides, and what to
// call them.
func (r *simulatedRun) limits() (limits []limiter.Limit, names []string, shadows []bool) {
	if r.policy == nil {
		limit, _ := r.limit.Normalize() // it was checked
		return []limiter.Limit{limit}, []string{limit.DefaultName()}, []bool{false}
	}
	for i := range r.policy.Limits {
		l := &r.policy.Limits[i]
		limit, _ := l.Limit.Normalize() // the configuration was checked
		limits, names, shadows = append(limits, limit), append(names, l.Name), append(shadows, l.Shadow)
	}
	return limits, names, shadows
}

// subject is what to call a subject: its value or, of several fields, their names, too.
func (r *simulatedRun) subject(subject uint32) string {
	values := r.result.Subjects[subject]
	if len(values) == 1 && r.policy == nil {
		return values[0]
	}
	var words []string
	for i, value := range values {
		if value != "" {
			words = append(words, r.names[i]+"="+value)
		}
	}
	return strings.Join(words, " ")
}

// reportAudit is the worst of the ratios and the sum of the units that audits found.
func reportAudit(findings ...audit.Finding) report.Audit {
	sum := report.Audit{Fairness: 1}
	for _, f := range findings {
		sum.WorstWindowRatio = max(sum.WorstWindowRatio, f.WorstRatio)
		sum.WorstWindowUnits = max(sum.WorstWindowUnits, f.WorstUnits)
		sum.OverAdmitted += f.OverAdmitted
		sum.UnderAdmitted += f.UnderAdmitted
		sum.LongestDenialRun = max(sum.LongestDenialRun, f.LongestDenialRun)
		sum.Fairness = min(sum.Fairness, f.Fairness)
	}
	return sum
}

// simulateDocument is a report's document, and the counts that were searched.
type simulateDocument struct {
	*report.Document
	Suggestions []suggestionDocument `json:"suggestions,omitempty"`
}

// suggestionDocument is the least count that keeps a promise.
type suggestionDocument struct {
	Promise   string `json:"promise"`
	Kept      bool   `json:"kept"`
	Algorithm string `json:"algorithm"`
	Limit     string `json:"limit"`
	Count     int64  `json:"count"` // the greatest that there is, if the promise is not kept
	Actual    string `json:"actual"`
	// Below is the figure of one unit less, absent if there is no such limit.
	Below string `json:"one_less,omitempty"`
}

func newSuggestionDocument(promise loadgen.Promise, found *loadgen.Suggestion) suggestionDocument {
	document := suggestionDocument{
		Promise: promise.String(), Kept: found.Kept, Algorithm: found.Limit.Algorithm.String(), Limit: found.Limit.String(),
		Count: found.Limit.Count, Actual: promise.Actual(found.Tally),
	}
	if found.Below != nil {
		document.Below = promise.Actual(found.Below)
	}
	return document
}

// simulateAnswer is the answer of simulate.
type simulateAnswer struct {
	log      *trace.Trace
	name     string // of the log
	document simulateDocument
}

// Document implements output.Answer.
func (a *simulateAnswer) Document() any { return a.document }

// Lines implements output.Answer.
func (a *simulateAnswer) Lines() []any {
	var lines []any
	for i := range a.document.Runs {
		lines = append(lines, &a.document.Runs[i])
	}
	return lines
}

// Records implements output.Answer.
func (a *simulateAnswer) Records() [][]string {
	records := [][]string{{"policy", "limit", "algorithm", "store", "requests", "allowed", "denied", "keys", "keys_denied",
		"worst_window_ratio", "worst_window_units", "over_admitted", "under_admitted", "longest_denial_run", "fairness"}}
	for i := range a.document.Runs {
		r := &a.document.Runs[i]
		records = append(records, []string{r.Policy, r.Limit, r.Algorithm, r.Store, number(r.Requests), number(r.Allowed), number(r.Denied), number(r.Keys), number(r.KeysDenied),
			decimal(r.Audit.WorstWindowRatio), number(r.Audit.WorstWindowUnits), number(r.Audit.OverAdmitted), number(r.Audit.UnderAdmitted),
			number(r.Audit.LongestDenialRun), decimal(r.Audit.Fairness)})
	}
	return records
}

func decimal(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }

// Print implements output.Answer.
func (a *simulateAnswer) Print(p *output.Printer) {
	requests := a.log.Requests
	fmt.Fprintf(p.Out, "%s: %s from %s to %s\n", a.name, output.Plural(len(requests), "request"),
		requests[0].At.Time().Format(time.DateTime), requests[len(requests)-1].At.Time().Format(time.DateTime))
	columns := []output.Column{{Header: "LIMIT", Shrinks: 12}, {Header: "ALLOWED", Right: true, Drops: 2}, {Header: "DENIED", Right: true},
		{Header: "KEYS", Right: true, Drops: 4}, {Header: "DENIED", Right: true}, {Header: "WORST WINDOW", Right: true, Drops: 1}, {Header: "DENIED MOST", Shrinks: 12, Drops: 3}}
	var rows [][]output.Cell
	for i := range a.document.Runs {
		r := &a.document.Runs[i]
		name, style, most := r.Limit, output.Calm, "-"
		if r.Policy != "" {
			name = r.Policy + ": " + name
		}
		if r.Denied > 0 {
			style = output.AtEnd
			most = fmt.Sprintf("%s (%d)", output.Printable(r.MostDenied[0].Key), r.MostDenied[0].Denied)
		}
		rows = append(rows, []output.Cell{{Text: name}, {Text: number(r.Allowed)}, {Text: ofAll(r.Denied, r.Requests), Style: style},
			{Text: number(r.Keys)}, {Text: ofAll(r.KeysDenied, r.Keys), Style: style}, {Text: fmt.Sprintf("%.2f ×", r.Audit.WorstWindowRatio)}, {Text: most}})
	}
	p.Table(columns, rows)
	for _, s := range a.document.Suggestions {
		switch {
		case !s.Kept:
			fmt.Fprintf(p.Out, "%s of %s: no count keeps it; at %d it is %s\n", s.Promise, s.Limit, s.Count, s.Actual)
		case s.Below == "":
			fmt.Fprintf(p.Out, "%s needs %s: %s\n", s.Promise, s.Limit, s.Actual)
		default:
			fmt.Fprintf(p.Out, "%s needs %s: %s, and with one less %s\n", s.Promise, s.Limit, s.Actual, s.Below)
		}
	}
}

// ofAll writes a number and its share of all.
func ofAll(n, all int64) string {
	return fmt.Sprintf("%d (%.1f%%)", n, 100*float64(n)/float64(max(1, all)))
}

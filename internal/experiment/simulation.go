package experiment

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/limitctl/limitctl/internal/report"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/loadgen"
)

// Simulation is the plan of a simulation.
type Simulation struct {
	// Candidates are tried side by side on the log.
	Candidates []Candidate
	Log        *Log
	// Promise, if set, is about denials. The least count that keeps it is searched for
	// each candidate of a limit, and tried, too.
	Promise *report.Expression
	// Wrap is what is put around a store in memory, by the log's clock.
	Wrap Wrap
}

// SimulationObserver follows a simulation.
type SimulationObserver interface {
	// Begin is called when the run of a candidate begins, and End when it has ended.
	Begin(candidate *Candidate)
	// Progress says how many of the log's requests are decided, and how many of those
	// were denied.
	Progress(decided, requests, denied int64)
	End()
}

// Run decides the log under all candidates. After an error there is no result. What is
// wrong with the plan is a [store.ErrInvalid].
func (s *Simulation) Run(ctx context.Context, observer SimulationObserver) (*report.Document, error) {
	document := report.New(report.Simulation)
	candidates := s.Candidates
	if s.Promise != nil {
		suggested, err := s.suggest(ctx, document)
		if err != nil {
			return nil, err
		}
		candidates = append(candidates[:len(candidates):len(candidates)], suggested...)
	}
	for i := range candidates {
		tried, err := s.try(ctx, &candidates[i], observer)
		if err != nil {
			return nil, err
		}
		document.Runs = append(document.Runs, tried.report())
	}
	return document, nil
}

// suggest searches the least count of each limit that keeps the promise, and returns the
// limits with these counts.
func (s *Simulation) suggest(ctx context.Context, document *report.Document) (suggested []Candidate, err error) {
	indexes, _ := s.Log.keyIndexes()
	for _, candidate := range s.Candidates {
		if candidate.Policy != nil {
			continue
		}
		found, err := loadgen.Suggest(ctx, s.Log.Trace, candidate.Limits[0], func(t *loadgen.Tally) bool {
			kept, _ := s.holds(t)
			return kept
		}, indexes...)
		if err != nil {
			return nil, err
		}
		suggestion := report.Suggestion{
			Promise: s.Promise.String(), Kept: found.Kept,
			Algorithm: found.Limit.Algorithm.String(), Limit: found.Limit.String(), Count: found.Limit.Count,
		}
		_, suggestion.Actual = s.holds(found.Tally)
		if found.Below != nil {
			_, suggestion.Below = s.holds(found.Below)
		}
		document.Suggestions = append(document.Suggestions, suggestion)
		if found.Kept && !isTried(slices.Concat(s.Candidates, suggested), found.Limit) {
			suggested = append(suggested, Candidate{Limits: []store.Limit{found.Limit}})
		}
	}
	return suggested, nil
}

// isTried reports whether a limit is one of the candidates by itself.
func isTried(candidates []Candidate, limit store.Limit) bool {
	return slices.ContainsFunc(candidates, func(c Candidate) bool {
		return c.Policy == nil && len(c.Limits) == 1 && c.Limits[0] == limit
	})
}

// holds reports whether what was tallied keeps the promise, and the figure it is about.
func (s *Simulation) holds(t *loadgen.Tally) (kept bool, actual string) {
	// Every run has these figures, so that there is no error.
	kept, actual, _ = s.Promise.Holds(&report.Run{Result: loadgen.Result{
		Requests: t.Requests(), Denied: t.Denied(), Keys: t.Keys(), KeysDenied: t.KeysDenied(),
	}})
	return kept, actual
}

// simulationRun is what came of one candidate.
type simulationRun struct {
	candidate *Candidate
	log       *Log
	fields    []string // the names of the fields that make a subject
	result    *loadgen.Simulation
	wrap      *report.Wrapped // what came of wrappers, if there were any
}

// try decides the log under one candidate.
func (s *Simulation) try(ctx context.Context, candidate *Candidate, observer SimulationObserver) (run *simulationRun, err error) {
	onLog, fields := s.Log.candidate(candidate)
	run = &simulationRun{candidate: candidate, log: s.Log, fields: fields}
	requests := int64(len(s.Log.Trace.Requests))
	observer.Begin(candidate)
	defer observer.End()
	options := loadgen.SimulateOptions{Progress: func(decided, denied int64) { observer.Progress(decided, requests, denied) }}
	if s.Wrap.IsZero() {
		run.result, err = loadgen.Simulate(ctx, s.Log.Trace, onLog, options)
		return run, err
	}
	options.Clock = new(loadgen.Clock)
	wrapped := s.Wrap.around(options.Clock)
	options.Store = wrapped
	if run.result, err = loadgen.Simulate(ctx, s.Log.Trace, onLog, options); err == nil {
		err = wrapped.Close() // which gives back what is held
	}
	run.wrap = s.Wrap.report(wrapped, run.result)
	return run, err
}

// subjectName is what to call a subject.
func (r *simulationRun) subjectName(subject uint32) string {
	return subjectName(r.result.Subjects.At(subject), r.fields, r.candidate.Policy != nil)
}

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
	result, limits := r.result, r.candidate.limits()
	run := report.Run{
		Result: result.Result, Store: report.NoStore, Rate: result.ThroughputPerS, Warnings: slices.Clone(r.log.Notes),
		Load: fmt.Sprintf("%d requests of %s by %s, from %s to %s", len(r.log.Trace.Requests), r.log.Name, strings.Join(r.fields, ", "),
			result.Begin.Time().Format(time.DateTime), result.End.Time().Format(time.DateTime)),
		MostDenied: mostDenied(result.Tally, r.subjectName),
	}
	if r.hasKeysOfItsOwn() {
		run.MostDenied = mostDenied(&result.ByKey, r.keyName)
	}
	if r.candidate.Policy != nil {
		run.Policy = r.candidate.Policy.Name
	}
	describe(&run, limits)
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
	if result.MixedKeys != nil {
		run.Warnings = append(run.Warnings, warnMixed(&run, func(limit int) int { return result.MixedKeys[limit] })...)
	}
	return run
}

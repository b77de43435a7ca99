package experiment

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/connect"
	"github.com/limitctl/limitctl/cmd/internal/report"
	"github.com/limitctl/limitctl/internal/layers"
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
	// Open, if set, opens a store that decides by that clock, too. It is called once for
	// each candidate, and the store is closed after its run.
	Open func(clock func() time.Time) (*Store, error)
	// Wrap is what is put around the store, by the log's clock. Without Open it is around a
	// store in memory.
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

// SimulationResult is what came of a simulation.
type SimulationResult struct {
	Report *report.Document
	// PromiseKept is false if no count of some limit keeps the promise.
	PromiseKept bool
	// Disagreements are where a store did not decide as Go does.
	Disagreements []Disagreement
}

// Disagreement is what one run found where the store did not decide as Go does.
type Disagreement struct {
	Limit    string // that was tried, in words
	Count    int64  // of requests decided differently
	Requests int64  // in all
	// First describes the first few of them, a line each.
	First []string
}

// Run decides the log under all candidates. After an error there is no result. What is
// wrong with the plan is a [store.ErrInvalid]; keys that could not be removed from the
// store are a [LeftoverError].
func (s *Simulation) Run(ctx context.Context, observer SimulationObserver) (*SimulationResult, error) {
	result := &SimulationResult{Report: report.New(report.Simulation), PromiseKept: true}
	candidates := s.Candidates
	if s.Promise != nil {
		suggested, err := s.suggest(ctx, result)
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
		result.Report.Runs = append(result.Report.Runs, tried.report())
		if tried.result.Disagreements > 0 {
			result.Disagreements = append(result.Disagreements, tried.disagreement())
		}
	}
	return result, nil
}

// suggest searches the least count of each limit that keeps the promise, and returns the
// limits with these counts.
func (s *Simulation) suggest(ctx context.Context, result *SimulationResult) (suggested []Candidate, err error) {
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
		result.Report.Suggestions = append(result.Report.Suggestions, suggestion)
		result.PromiseKept = result.PromiseKept && found.Kept
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
	kept, actual, _ = s.Promise.Holds(&report.Figures{
		Requests: t.Requests(), Denied: t.Denied(), Keys: t.Keys(), KeysDenied: t.KeysDenied(),
	})
	return kept, actual
}

// simulationRun is what came of one candidate.
type simulationRun struct {
	candidate *Candidate
	log       *Log
	fields    []string // the names of the fields that make a subject
	store     string   // what a report calls the store that decided, if one did
	result    *loadgen.Simulation
	wrap      *report.Wrapped // what came of wrappers, if there were any
	warnings  []string
}

// try decides the log under one candidate, in a store if there is one.
func (s *Simulation) try(ctx context.Context, candidate *Candidate, observer SimulationObserver) (*simulationRun, error) {
	onLog, fields := s.Log.candidate(candidate)
	run := &simulationRun{candidate: candidate, log: s.Log, fields: fields}
	requests := int64(len(s.Log.Trace.Requests))
	observer.Begin(candidate)
	defer observer.End()
	options := loadgen.SimulateOptions{Progress: func(decided, denied int64) { observer.Progress(decided, requests, denied) }}
	var err error
	if s.Open == nil && s.Wrap.IsZero() {
		run.result, err = loadgen.Simulate(ctx, s.Log.Trace, onLog, options)
		return run, err
	}
	var clock loadgen.Clock
	open := s.Open
	if open == nil {
		open = openInMemory
	}
	backend, err := open(clock.Now)
	if err != nil {
		return nil, err
	}
	defer backend.Close()
	options.Store, options.Clock = backend, &clock
	if s.Open != nil {
		run.store = backend.where
	}
	if !s.Wrap.IsZero() {
		wrapped := s.Wrap.around(backend, &clock, layers.Layers{})
		options.Store, options.Wrapped, options.Skew, options.Held = wrapped, true, s.Wrap.skew(), s.Wrap.held
		run.result, err = loadgen.Simulate(ctx, s.Log.Trace, onLog, options)
		run.wrap = s.Wrap.report(wrapped, candidate.limits(), run.result.Tally.Requests(), run.result.Held(0, s.Wrap.held))
		run.warnings = s.Wrap.warnings(candidate.limits())
		return run, errors.Join(err, wrapped.Close(), backend.remove(ctx, "simulation", run.result.StoreKeys))
	}
	run.result, err = loadgen.Simulate(ctx, s.Log.Trace, onLog, options)
	return run, errors.Join(err, backend.remove(ctx, "simulation", run.result.StoreKeys))
}

// openInMemory opens a store in memory.
func openInMemory(clock func() time.Time) (*Store, error) {
	return OpenStore("memory:", connect.Options{Prefix: string(store.DefaultPrefix), Clock: clock})
}

// subjectName is what to call a subject.
func (r *simulationRun) subjectName(subject uint32) string {
	return subjectName(r.result.Subjects.At(subject), r.fields, r.candidate.Policy != nil)
}

// disagreement describes where the store did not decide as Go does.
func (r *simulationRun) disagreement() Disagreement {
	limits := r.candidate.limits()
	d := Disagreement{Limit: limitWords(limits), Count: r.result.Disagreements, Requests: r.result.Tally.Requests()}
	for _, one := range r.result.FirstDisagreements {
		d.First = append(d.First, fmt.Sprintf("request %d, at %s, of %s, limit %s: the store says %s; Go says %s",
			one.Request, one.At.Time().Format(time.RFC3339Nano), r.subjectName(one.Subject), limits[one.Limit].limit,
			decisionWords(&one.Store), decisionWords(&one.Go)))
	}
	return d
}

// decisionWords writes all that a decision says.
func decisionWords(d *store.Decision) string {
	verdict := "denied"
	if d.Allowed {
		verdict = "allowed"
	}
	return fmt.Sprintf("%s, %d used, %d remaining, retry after %s, reset after %s, delay %s",
		verdict, d.Used, d.Remaining, d.RetryAfter, d.ResetAfter, d.Delay)
}

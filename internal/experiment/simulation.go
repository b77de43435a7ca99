package experiment

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/limitctl/limitctl/internal/layers"
	"github.com/limitctl/limitctl/internal/report"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
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
	// Watch, if set, is called when the run of a candidate begins. It returns what to call with how many of the log's
	// requests are decided and how many of those were denied, and at the end.
	Watch func() (progress func(decided, requests, denied int64), end func())
}

// Run decides the log under all candidates. After an error there is no result. What is
// wrong with the plan is a [store.ErrInvalid].
func (s *Simulation) Run(ctx context.Context) (*report.Document, error) {
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
		run, err := s.try(ctx, &candidates[i])
		if err != nil {
			return nil, err
		}
		document.Runs = append(document.Runs, *run)
	}
	return document, nil
}

// suggest searches the least count of each limit that keeps the promise, and returns the limits with these counts.
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
		Requests: t.Allowed + t.Denied, Denied: t.Denied, Keys: t.Keys, KeysDenied: t.KeysDenied,
	}})
	return kept, actual
}

// try decides the log under one candidate, and puts the result in the terms of a report.
func (s *Simulation) try(ctx context.Context, candidate *Candidate) (*report.Run, error) {
	onLog, fields := s.Log.candidate(candidate)
	requests := int64(len(s.Log.Trace.Requests))
	var options loadgen.SimulateOptions
	if s.Watch != nil {
		progress, end := s.Watch()
		defer end()
		options.Progress = func(decided, denied int64) { progress(decided, requests, denied) }
	}
	var wrapped *replicas
	if !s.Wrap.IsZero() {
		options.Clock = new(loadgen.Clock)
		wrapped = s.Wrap.around(options.Clock)
		options.Store = wrapped
	}
	result, err := loadgen.Simulate(ctx, s.Log.Trace, onLog, options)
	if err == nil && wrapped != nil {
		err = wrapped.Close() // which gives back what is held
	}
	if err != nil {
		return nil, err
	}
	run := newRun(&result.Result, candidate, func(subject uint32) string {
		return subjectName(result.Subjects.At(subject), fields, candidate.Policy != nil)
	})
	run.Store, run.Rate, run.Warnings = report.NoStore, result.ThroughputPerS, slices.Clone(s.Log.Notes)
	run.Load = fmt.Sprintf("%d requests of %s by %s, from %s to %s", requests, s.Log.Name, strings.Join(fields, ", "),
		result.Begin.Time().Format(time.DateTime), result.End.Time().Format(time.DateTime))
	if p := candidate.Policy; p != nil && len(p.Limits) > 1 &&
		slices.ContainsFunc(p.Limits, func(l policy.Limit) bool { return len(l.By) < len(fields) }) {
		// Who asks often under many names is one key of a limit, and many subjects.
		run.MostDenied = mostDenied(&result.ByKey, func(key uint32) string { return keyName(result, p, fields, key) })
	}
	if wrapped != nil {
		wrapped.report(run, s.Wrap.Words, result)
	}
	if result.NeverFits > 0 {
		warn(run, "%d of the denied requests cost more than the limit ever allows at once; a store would refuse them "+
			"as mistakes", result.NeverFits)
	}
	if result.MixedKeys != nil {
		warnOfLimits(run, func(limit int) int { return result.MixedKeys[limit] })
	}
	return run, nil
}

// keyName is what to call a key of a policy: the attributes that its limit is by, and the limit's name.
func keyName(result *loadgen.Simulation, p *policy.Policy, fields []string, key uint32) string {
	i, subject := result.OwnerOf(key)
	limit := &p.Limits[i]
	var values, names []string
	for n, name := range fields {
		if slices.Contains(limit.By, name) {
			values, names = append(values, result.Subjects.At(subject)[n]), append(names, name)
		}
	}
	return subjectName(values, names, true) + " (" + limit.Name + ")"
}

// Wrap says what is put around the store of a simulation, as a service would do, and how many processes of that
// service there are. The zero Wrap is the limit as it is.
type Wrap struct {
	// Replicas is how many instances there are of all wrappers, 0 for one. Requests go to them in turn.
	Replicas int
	Denials  *store.DenialMemory
	Leases   *store.Leases
	// Words are the wrappers as they were asked for, such as "lease=50".
	Words []string
}

// IsZero reports whether there is nothing around the store.
func (w *Wrap) IsZero() bool { return w.Denials == nil && w.Leases == nil }

// around returns the replicas of the wrappers around an empty store in memory, all by one clock.
func (w *Wrap) around(clock *loadgen.Clock) *replicas {
	with := layers.Layers{Leases: w.Leases, DenialMemory: w.Denials, Env: layers.Env{
		Clock: clock.Now, Background: clock.Background}}
	r := &replicas{store: &countedStore{Store: memorystore.New(memorystore.WithClock(clock.Now))}}
	for range max(1, w.Replicas) {
		r.stacks = append(r.stacks, layers.Stack(r.store, with))
	}
	return r
}

// replicas are instances of wrappers around one store. Requests go to them in turn.
type replicas struct {
	store  *countedStore
	stacks []store.Store
	next   int
}

// report describes what came of the wrappers.
func (r *replicas) report(run *report.Run, words []string, result *loadgen.Simulation) {
	calls := r.store.calls.Load()
	run.Wrapped = &report.Wrapped{
		Replicas: len(r.stacks), Wrap: words, StoreCalls: calls,
		CallsPerDecision: float64(calls) / float64(max(1, result.Requests)),
	}
	text := "the units over- and under-admitted are what the wrappers cost in accuracy; thresholds judge them, and " +
		"the audit does not"
	if len(run.Limits) > 1 {
		text = "denial memory and leases are for calls of one limit; these are of several, and all of them went to " +
			"the store"
	}
	warn(run, "%s", text)
	for i := range run.Limits {
		run.Limits[i].Doubtful = true
	}
}

// Decide implements [store.Store].
func (r *replicas) Decide(ctx context.Context, op store.Op, reqs []store.Request, decisions []store.Decision) error {
	r.next = (r.next + 1) % len(r.stacks)
	return r.stacks[r.next].Decide(ctx, op, reqs, decisions)
}

// Close ends the wrappers, which give back what they hold.
func (r *replicas) Close() (err error) {
	for _, stack := range r.stacks {
		err = errors.Join(err, stack.Close())
	}
	return err
}

// countedStore counts the calls of a store, which it leaves open.
type countedStore struct {
	store.Store
	calls atomic.Int64
}

// Decide implements [store.Store].
func (s *countedStore) Decide(ctx context.Context, op store.Op, reqs []store.Request,
	decisions []store.Decision) error {
	s.calls.Add(1)
	return s.Store.Decide(ctx, op, reqs, decisions)
}

// Close implements [store.Store].
func (s *countedStore) Close() error { return nil }

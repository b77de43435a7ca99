// Package experiment tries limits out: a load test drives them with requests and measures the result, and a
// simulation decides recorded requests at their own times.
//
// Each is a plan ([LoadTest], [Simulation]) whose Run takes an observer and returns a
// report. What a load test drives is a [Target]. An experiment in a store uses keys under a
// prefix of its own and removes them at the end.
package experiment

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/limitctl/limitctl/internal/layers"
	"github.com/limitctl/limitctl/internal/report"
	"github.com/limitctl/limitctl/pkg/limiter/httplimit"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/loadgen"
	"github.com/limitctl/limitctl/pkg/loadgen/trace"
)

// PlanError says that a plan cannot be carried out as it is. It is a
// [store.ErrInvalid].
type PlanError struct {
	// Field is the part of the plan that has to change.
	Field PlanField
	// Problem is what is wrong with it, as a sentence that begins after the part's value.
	Problem string
}

// PlanField is a part of a plan, named as the flag that sets it.
type PlanField string

// The parts of plans that can turn out to be wrong.
const (
	fieldCost           PlanField = "cost"           // of requests
	fieldDuration       PlanField = "duration"       // of a run
	fieldImplementation PlanField = "implementation" // of decisions in Redis
	fieldScenario       PlanField = "scenario"       // that is sent
	fieldWarmup         PlanField = "warmup"         // at the beginning of a run
)

// Error names the part and its problem.
func (e *PlanError) Error() string { return "the " + string(e.Field) + " " + e.Problem }

// Is reports that a PlanError is a [store.ErrInvalid].
func (e *PlanError) Is(target error) bool { return target == store.ErrInvalid }

// LeftoverError says that keys of an experiment could not be removed from the store.
type LeftoverError struct{ Err error }

// Error is the text of the cause.
func (e *LeftoverError) Error() string { return e.Err.Error() }

// Unwrap returns the error with its cause.
func (e *LeftoverError) Unwrap() error { return e.Err }

// Target is what a load test drives: something that decides limits. One is opened for
// each run. Decide is called by many goroutines at once, and the other methods by one.
type Target interface {
	// Decide answers a request of the load, and Close ends the use of the target.
	store.Store
	// Describe says what the target is, for the report.
	Describe() Description
	// Prepare finds out, before any load is sent, that the target answers the requests,
	// and what its clock shows. It charges nothing, and returns within twice the timeout.
	Prepare(ctx context.Context, requests []store.Request, timeout time.Duration) (Clock, error)
	// Measure begins to measure what decisions cost.
	Measure(ctx context.Context) Measurement
	// CleanUp removes what requests for the keys have left. It works also after ctx was
	// cancelled. Its error is a [LeftoverError].
	CleanUp(ctx context.Context, keys []store.Key) error
}

// Measurement is what decisions cost, from its beginning on.
type Measurement interface {
	// End returns what each of the decisions cost on average, and what a reader must know
	// about these figures. sample are some of the keys that were decided about.
	End(ctx context.Context, decisions int64, sample []store.Key) (report.Cost, []string)
}

// Description says what a target is.
type Description struct {
	// Name is what a report calls the target. It has no password in it.
	Name string
	// Server is its kind and version, such as "Redis 7.0.15"; empty if it is not known.
	Server string
	// Implementation is how a Redis store decides; empty for other targets.
	Implementation string
	// Prefix begins the keys that the target makes; empty if it makes none.
	Prefix string
	// Divided: limits of different subjects are not decided at one instant, because they
	// lie on different servers.
	Divided bool
}

// Clock is what is known about the clock that decides.
type Clock struct {
	// Ahead is how far it is ahead of this machine's clock.
	Ahead time.Duration
	// Skew is by how much it can differ from itself, where several servers decide.
	Skew time.Duration
}

// Log is recorded traffic, and which of its fields say who is limited.
type Log struct {
	Trace *trace.Trace
	// Name is what a report calls the log.
	Name string
	// Notes are what a reader of any figures about the log must know.
	Notes []string
	// KeyFields are the fields that limits are by; if there are none it is the first
	// field of the trace.
	KeyFields []string
	// FieldOf says which field holds an attribute of a policy. An attribute that is not
	// in it is in the field of its own name.
	FieldOf policy.Attributes
	// HTTP says which attributes of policies are clients.
	HTTP httplimit.Settings
}

// FieldFor returns the field that holds an attribute of a policy.
func (l *Log) FieldFor(attribute string) string {
	if field, known := l.FieldOf[attribute]; known {
		return field
	}
	return attribute
}

// candidate returns a candidate as it is tried on the log, and what to call each of the
// fields that it is by.
func (l *Log) candidate(c *Candidate) (onLog loadgen.Candidate, names []string) {
	if c.Policy == nil {
		indexes, names := l.keyIndexes()
		return loadgen.UnderLimits(indexes, c.Limits...), names
	}
	var indexes []int
	names, _ = c.Policy.Attributes()
	for _, name := range names {
		indexes = append(indexes, slices.Index(l.Trace.Fields, l.FieldFor(name)))
	}
	return loadgen.UnderPolicy(indexes, names, c.Policy, &l.HTTP), names
}

// keyIndexes returns which of the trace's fields limits are by, and their names.
func (l *Log) keyIndexes() (indexes []int, names []string) {
	if len(l.KeyFields) == 0 {
		return []int{0}, l.Trace.Fields[:1]
	}
	for _, name := range l.KeyFields {
		indexes = append(indexes, slices.Index(l.Trace.Fields, name))
	}
	return indexes, l.KeyFields
}

// subjectName is what to call who is limited: the value if it is a single one, and the
// values with their names otherwise, as always for a policy.
func subjectName(values, names []string, isPolicy bool) string {
	if len(values) == 1 && !isPolicy {
		return values[0]
	}
	var words []string
	for i, value := range values {
		if value != "" {
			words = append(words, names[i]+"="+value)
		}
	}
	return strings.Join(words, " ")
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
	with := layers.Layers{Leases: w.Leases, DenialMemory: w.Denials, Env: layers.Env{Clock: clock.Now, Background: clock.Background}}
	r := &replicas{store: &countedStore{Store: memorystore.New(memorystore.WithClock(clock.Now))}}
	for range max(1, w.Replicas) {
		r.stacks = append(r.stacks, layers.Stack(r.store, with))
	}
	return r
}

// report describes what came of the wrappers.
func (w *Wrap) report(r *replicas, result *loadgen.Simulation) *report.Wrapped {
	calls := r.store.calls.Load()
	return &report.Wrapped{
		Replicas: len(r.stacks), Wrap: w.Words, StoreCalls: calls,
		CallsPerDecision: float64(calls) / float64(max(1, result.Requests)),
		AllowedBesides:   result.AllowedBesides, DeniedBesides: result.DeniedBesides,
	}
}

// wrapWarning says what the figures of a run with wrappers mean.
func wrapWarning(limits []namedLimit) string {
	if len(limits) > 1 {
		return "denial memory and leases are for calls of one limit; these are of several, and all of them went to the store"
	}
	return "the units over- and under-admitted are what the wrappers cost in accuracy; thresholds judge them, and the audit does not"
}

// replicas are instances of wrappers around one store. Requests go to them in turn.
type replicas struct {
	store  *countedStore
	stacks []store.Store
	next   int
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
func (s *countedStore) Decide(ctx context.Context, op store.Op, reqs []store.Request, decisions []store.Decision) error {
	s.calls.Add(1)
	return s.Store.Decide(ctx, op, reqs, decisions)
}

// Close implements [store.Store].
func (s *countedStore) Close() error { return nil }

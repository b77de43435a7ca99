// Package experiment tries limits out: a load test drives them with requests and measures the result, and a
// simulation decides recorded requests at their own times.
//
// Each is a plan ([LoadTest], [Simulation]) whose Run takes an observer and returns a
// report. What a load test drives is a [Target]. An experiment in a store uses keys under a
// prefix of its own and removes them at the end.
package experiment

import (
	"context"
	"time"

	"github.com/limitctl/limitctl/internal/report"
	"github.com/limitctl/limitctl/pkg/limiter/store"
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

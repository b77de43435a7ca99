// Package experiment tries limits out: a load test drives them with requests and measures the result, and a
// simulation decides recorded requests at their own times.
//
// Each is a plan ([LoadTest], [Simulation]) whose Run takes an observer and returns a
// report. What a load test drives is a [Target]. An experiment in a store uses keys under a
// prefix of its own and removes them at the end.
package experiment

import "github.com/limitctl/limitctl/pkg/limiter/store"

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

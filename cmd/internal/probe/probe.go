// Package probe finds out, by a bounded number of requests, what limit an endpoint has, and
// whether it keeps what it says.
package probe

import (
	"context"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/endpoint"
	"github.com/limitctl/limitctl/cmd/internal/probe/explain"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Config says what is probed.
type Config struct {
	Client endpoint.Client
	// Limit is what the endpoint is held to. Without one it is found out.
	Limit *store.Limit
	// Quota is the most requests that may be sent.
	Quota int
	// MaxTime is the longest that the probe may take; 0 means as long as it needs.
	MaxTime time.Duration
	// Workers is the most requests that are under way at once, so that a large limit is
	// exhausted before it refills; 0 and 1 mean one.
	Workers int
	// Timeout is how long an answer may take; 0 is as long as the client waits.
	Timeout time.Duration
	// DeniedStatus is the status that a denial must have; 0 means 429.
	DeniedStatus int
	// Clock tells the time and waits, for tests in virtual time; nil is this machine's.
	Clock Clock
	// Observer is told what is going on. It may be nil.
	Observer Observer
}

// Clock is how a probe tells the time and waits.
type Clock interface {
	Now() time.Time
	// Sleep waits, and returns earlier if ctx ends, with its error.
	Sleep(ctx context.Context, d time.Duration) error
}

// Observer is told how a probe goes.
type Observer interface {
	// Plan is called before the first request with what is going to be done.
	Plan(steps []string)
	// Step is called when something begins that takes a while: what it is, and how long it
	// takes at most.
	Step(what string, atMost time.Duration)
}

// Discovery is what was found out about a limit.
type Discovery struct {
	// Limit is the limit in canonical form; nil if none was found.
	Limit *store.Limit
	// Exact says that the count, the period and the burst are known exactly.
	Exact bool
	// Phase is by how much its windows begin later than whole periods since the epoch, if
	// PhaseKnown.
	Phase      time.Duration
	PhaseKnown bool
	// PhaseWithin is by how much the phase may be wrong, either way.
	PhaseWithin time.Duration
	// Behaviour is how it counts where that is not said by the limit.
	Behaviour explain.Behaviour
	// Alternatives are limits that would have answered alike.
	Alternatives []store.Limit
	// Notes are what could not be told apart, and why, in words.
	Notes []string
	// Events are all requests that were sent, in order.
	Events []explain.Event
}

// Result is what a probe found, check by check.
type Result struct {
	Discovery
	// Dialect is the dialect of the headers that tell of the limit, empty if there are none.
	// Where there are several, it is the newest.
	Dialect string
	// Dialects are all of them, the newest first.
	Dialects []string
	Checks   []Check
}

// Verdict is how a check ended.
type Verdict string

// The verdicts of a check.
const (
	Pass    Verdict = "pass"
	Fail    Verdict = "fail"
	Unknown Verdict = "unknown" // it could not be seen
)

// Check is one thing that an endpoint is held to.
type Check struct {
	Name           string
	Verdict        Verdict
	Expected, Seen string
	// Details are what Seen sums up, where that is more than one thing.
	Details []string
}

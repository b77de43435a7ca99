// Package probe finds out, with a bounded number of requests, what limit an endpoint has, and whether it keeps a
// given one.
package probe

import (
	"context"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/endpoint"
	"github.com/limitctl/limitctl/cmd/internal/probe/explain"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Config says what to probe and how.
type Config struct {
	Client endpoint.Client
	// Limit is the limit that the endpoint should keep. If it is nil, the probe finds it out.
	Limit *store.Limit
	// Beside are limits that the endpoint should keep as well: only what fits all of them is admitted. Limit is the one that
	// denies first.
	Beside []store.Limit
	// Quota is the most requests that may be sent.
	Quota int
	// MaxTime is the longest time that the probe may take; 0 means as long as it needs.
	MaxTime time.Duration
	// Workers is the most requests under way at once, so that a large limit is exhausted before it refills; 0 and 1
	// mean one.
	Workers int
	// Timeout is how long an answer may take; 0 means as long as the client waits.
	Timeout time.Duration
	// DeniedStatus is the status that a denial must have; 0 means 429.
	DeniedStatus int
	// Fresh sends the same requests as Client, each over a connection of its own; nil if there is none.
	Fresh endpoint.Client
	// Methods send the same requests with methods that should be limited like that of Client.
	Methods []Method
	// AnyName says that a subject may have any name. Otherwise names are made from numbers or come from a list.
	AnyName bool
	// Require are the names of checks that must pass; see [CheckNames].
	Require []string
	// Strict requires every check for which there is something to test.
	Strict bool
	// Clock tells the time and waits, for tests in virtual time; nil is this machine's.
	Clock Clock
	// Observer gets reports of the progress. It may be nil.
	Observer Observer
}

// Method is a client and the name of the method of its requests.
type Method struct {
	Name   string
	Client endpoint.Client
}

// Clock is the time of a probe.
type Clock interface {
	Now() time.Time
	// Sleep waits. If ctx ends earlier, it returns its error.
	Sleep(ctx context.Context, d time.Duration) error
}

// Observer gets reports of a probe's progress.
type Observer interface {
	// Plan is called before the first request, with what the probe does.
	Plan(steps []string)
	// Step is called when something begins that takes a while: what it is, and the longest time that it takes.
	Step(what string, atMost time.Duration)
}

// Discovery is what a probe found out about a limit.
type Discovery struct {
	// Limit is the limit in canonical form; nil if none was found.
	Limit *store.Limit
	// Beside are limits that are decided together with Limit, which denies first.
	Beside []store.Limit
	// Exact says that the count, the period and the burst are known exactly.
	Exact bool
	// Phase is how much later than whole periods since the epoch its windows begin, if PhaseKnown.
	Phase      time.Duration
	PhaseKnown bool
	// PhaseWithin is the most by which the phase can be wrong, either way.
	PhaseWithin time.Duration
	// Behaviour is how the endpoint counts where the limit does not say it.
	Behaviour explain.Behaviour
	// Alternatives are limits that would have given the same answers.
	Alternatives []store.Limit
	// Notes say in words what could not be told apart, and why.
	Notes []string
	// Events are all requests that were sent, in order.
	Events []explain.Event
}

// Result is what a probe found, check by check.
type Result struct {
	Discovery
	// Dialect is the dialect of the headers about the limit, the newest if there are several; empty if there are
	// none.
	Dialect string
	// Dialects are all of them, the newest first.
	Dialects []string
	Checks   []Check
	// Missing are the required checks that were not seen.
	Missing []string
}

// Verdict is the result of a check.
type Verdict string

// The verdicts of a check.
const (
	Pass    Verdict = "pass"
	Fail    Verdict = "fail"
	Unknown Verdict = "unknown" // could not be checked
)

// Check is one thing that a probe checks.
type Check struct {
	Name           string
	Verdict        Verdict
	Expected, Seen string
	// Details list what Seen sums up, if that is more than one thing.
	Details []string
	// Moot says that there is nothing to test, so an unknown verdict leaves nothing open.
	Moot bool
}

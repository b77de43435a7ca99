// Package probe asks an endpoint with a bounded number of requests: [Run] checks whether it keeps a limit, and [Look]
// says what is seen of one.
package probe

import (
	"time"

	"github.com/limitctl/limitctl/internal/endpoint"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Config says what to probe and how.
type Config struct {
	Client endpoint.Client
	// Names, if there are any, are those of subjects in requests; else each has a new one.
	Names []string
	// Same are other ways to ask as the same client, for [Run].
	Same []Way
	// Limit is the limit that the endpoint should keep, which only [Run] needs.
	Limit store.Limit
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
	// DeniedHeader, if not empty, is the field that makes an answer of any status a denial.
	DeniedHeader string
	// Step is called when something begins that takes a while, and every ten seconds of it: what it is, and the longest
	// time that it still takes. It may be nil.
	Step func(what string, atMost time.Duration)
}

// Event is one request of a probe and its answer.
type Event struct {
	Subject string
	endpoint.Answer
	// Err is why there was no answer; the request may have been counted.
	Err error
	// way is how it was asked, if not in the usual way.
	way string
}

// Way is another way to ask as the same client, which lets nobody in who is denied.
type Way struct {
	// Name says how, such as "with another X-Forwarded-For".
	Name string
	// Open returns a client that asks so, each time with another value if there is one.
	Open func() (endpoint.Client, error)
}

// Result is what a probe found, check by check.
type Result struct {
	// Dialects are those of the headers about the limit, the newest first.
	Dialects []string
	Checks   []Check
	// Notes say in words what is no check's.
	Notes []string
	// Events are all requests that were sent, in order.
	Events []Event
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
	Name     string  `json:"name"`
	Verdict  Verdict `json:"verdict"`
	Expected string  `json:"expected"`
	Seen     string  `json:"seen"`
	// Moot says that there is nothing to test, so an unknown verdict leaves nothing open.
	Moot bool `json:"-"`
	// Grave says that an unknown verdict leaves open what may be grave.
	Grave bool `json:"-"`
}

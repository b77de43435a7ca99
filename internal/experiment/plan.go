// Package experiment tries limits out: a load test drives them with requests and measures the result, and a
// simulation decides recorded requests at their own times.
//
// Each is a plan ([LoadTest], [Simulation]) whose Run returns a report. What a load test drives
// is a [Target]. An experiment in a store uses keys under a prefix of its own and removes them at the end.
package experiment

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/limitctl/limitctl/internal/report"
	"github.com/limitctl/limitctl/pkg/limiter/httplimit"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/loadgen"
	"github.com/limitctl/limitctl/pkg/loadgen/trace"
)

// Target is what a load test drives: something that decides limits. One is opened for
// each run. Decide is called by many goroutines at once, and the other methods by one.
type Target interface {
	// Decide answers a request of the load, and Close ends the use of the target.
	store.Store
	// Prepare finds out, before any load is sent, that the target answers the requests, and what it is. It charges
	// nothing, and returns within three times the timeout.
	Prepare(ctx context.Context, requests []store.Request, timeout time.Duration) (Description, error)
	// Report adds to the report of a run what only the target knows.
	Report(run *report.Run)
	// CleanUp removes what requests for the keys have left. It works also after ctx was cancelled. Its error is an
	// [outcome.ErrPartly].
	CleanUp(ctx context.Context, keys []store.Key) error
}

// Description says what a target is.
type Description struct {
	// Name is what a report calls the target. It has no password in it.
	Name string
	// Server is its kind and version, such as "Redis 7.0.15"; empty if it is not known.
	Server string
	// Implementation is how a Redis store decides; empty for other targets.
	Implementation string
	// Divided: limits of different subjects are not decided at one instant, because they lie on different servers.
	Divided bool
	// Ahead is how far the clock that decides is ahead of this machine's, and Skew by how much it can differ from
	// itself, where several servers decide.
	Ahead, Skew time.Duration
}

// Log is recorded traffic, and which of its fields say who is limited.
type Log struct {
	Trace *trace.Trace
	// Name is what a report calls the log.
	Name string
	// Notes are what a reader of any figures about the log must know.
	Notes []string
	// KeyFields are the fields that limits are by; if there are none it is the first field of the trace.
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

// candidate returns a candidate as it is tried on the log, and what to call each of the fields that it is by.
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

package experiment

import (
	"slices"
	"strings"

	"github.com/limitctl/limitctl/pkg/limiter/httplimit"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/loadgen"
	"github.com/limitctl/limitctl/pkg/loadgen/trace"
)

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

package experiment

import (
	"slices"
	"strings"
	"time"

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
	return loadgen.UnderPolicy(indexes, names, c.Policy), names
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

// Replay is a log to be sent again.
type Replay struct {
	Log *Log
	// Speed is how many times as fast as recorded; it must be above 0.
	Speed float64
}

// recording is a replay under one candidate.
type recording struct {
	requests  *trace.Trace
	speed     float64
	subjectOf func(uint32) uint32 // which subject of the population each subject of the trace is
	fields    string              // that say who is limited
	leftOut   int                 // requests that cost more than the limit ever allows
}

// under returns the recording, and who asks in it, under a candidate. Requests that cost
// more than the limit ever allows are left out: a store would refuse them as mistakes.
func (r *Replay) under(c *Candidate) (*recording, *population, error) {
	onLog, names := r.Log.candidate(c)
	recorded, err := onLog.Population(r.Log.Trace)
	if err != nil {
		return nil, nil, err
	}
	sent := &recording{speed: r.Speed, subjectOf: recorded.SubjectOf, fields: strings.Join(names, ", ")}
	sent.requests, sent.leftOut = withinLimits(r.Log.Trace, recorded.MostAtOnce())
	return sent, &population{recorded.Population, func(subject uint32) string {
		return subjectName(recorded.Values.At(subject), names, c.Policy != nil)
	}}, nil
}

// withinLimits returns the log without the requests of more units than most, and how many
// those are.
func withinLimits(log *trace.Trace, most int64) (fitting *trace.Trace, leftOut int) {
	tooMuch := func(r trace.Request) bool { return int64(r.Cost) > most }
	if !slices.ContainsFunc(log.Requests, tooMuch) {
		return log, 0 // a large log is not copied without need
	}
	kept := *log
	kept.Requests = slices.DeleteFunc(slices.Clone(log.Requests), tooMuch)
	return &kept, len(log.Requests) - len(kept.Requests)
}

// MaxDuration is the longest that a load test goes on.
const MaxDuration = 31 * 24 * time.Hour

// replayTime is how long it takes to send a log at a speed, at most MaxDuration.
func replayTime(log *trace.Trace, speed float64) time.Duration {
	first, last := log.Requests[0].At, log.Requests[len(log.Requests)-1].At
	length := float64(last-first) * float64(time.Microsecond) / speed
	if length >= float64(MaxDuration) {
		return MaxDuration
	}
	// What is due at the very end is sent, too.
	return time.Duration(length) + time.Millisecond
}

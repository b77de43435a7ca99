package loadgen

import (
	"math"
	"time"

	"github.com/limitctl/limitctl/pkg/loadgen/trace"
)

// replay is a Load of recorded requests.
type replay struct {
	trace     *trace.Trace
	speed     float64
	subjectOf func(subject uint32) uint32
	i         int
}

// Replay returns the requests of a trace as a Load, at their own times divided by speed, which must be positive.
// subjectOf converts a subject of the trace to one of the load.
func Replay(t *trace.Trace, speed float64, subjectOf func(subject uint32) uint32) Load {
	return &replay{trace: t, speed: speed, subjectOf: subjectOf}
}

func (r *replay) Next() (Arrival, bool) {
	if r.i == len(r.trace.Requests) {
		return Arrival{}, false
	}
	first, q := r.trace.Requests[0].At, &r.trace.Requests[r.i]
	r.i++
	due := float64(q.At-first) * float64(time.Microsecond) / r.speed
	if due >= math.MaxInt64 { // in centuries
		return Arrival{}, false
	}
	return Arrival{Due: time.Duration(due), Subject: r.subjectOf(q.Subject), Cost: int64(q.Cost)}, true
}

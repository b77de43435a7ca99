package cmd

import (
	"slices"
	"time"

	"github.com/limitctl/limitctl/pkg/loadgen/trace"
)

// withinLimits returns the log without the requests of more units than fit at once,
// which a store would refuse as mistakes, and how many those are.
func withinLimits(log *trace.Trace, most int64) (fitting *trace.Trace, without int) {
	tooMuch := func(r trace.Request) bool { return int64(r.Cost) > most }
	if !slices.ContainsFunc(log.Requests, tooMuch) {
		return log, 0 // which may be large, and is not copied for nothing
	}
	kept := *log
	kept.Requests = slices.DeleteFunc(slices.Clone(log.Requests), tooMuch)
	return &kept, len(log.Requests) - len(kept.Requests)
}

// replayLength is how long it takes to send a log, but no longer than any load test.
func (o *loadtestOptions) replayLength() time.Duration {
	first, last := o.log.Requests[0].At, o.log.Requests[len(o.log.Requests)-1].At
	length := float64(last-first) * float64(time.Microsecond) / o.factor
	if length >= float64(maxLoadDuration) {
		return maxLoadDuration
	}
	// What is due at the very end is sent, too.
	return time.Duration(length) + time.Millisecond
}

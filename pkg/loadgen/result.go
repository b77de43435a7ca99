package loadgen

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/limitctl/limitctl/pkg/loadgen/audit"
)

// Result is what became of a run. One that [Config.Progress] is given changes as the
// run goes on, and is for the duration of that call.
type Result struct {
	Started time.Time
	// Elapsed is from the beginning until the last answer or, of a schedule that went
	// on to its end, until that end if it is later: what is due every second was sent
	// over the whole of the last one, too.
	Elapsed     time.Duration
	Interrupted bool

	// Requests is how many were sent after the warm-up. Each was allowed or denied or
	// ended in an error; Unknown is those of the errors that may have been charged.
	Requests, Allowed, Denied, Errors, Unknown int64
	// Decided is how many requests were allowed or denied, the warm-up's included: what
	// the whole run cost is for so many.
	Decided int64
	// Dropped is the arrivals that were not sent, being late by more than the timeout.
	Dropped int64
	// Late is the requests answered more than [Config.LateAfter] after they were due.
	Late int64
	// Waited is the requests that found all workers busy when they were handed out,
	// and waited for one.
	Waited int64

	// Latency is from when a request was due to its answer, Service from when it was
	// sent, and Lag how much later than due it was ready to be sent; all in
	// microseconds, rounded up.
	Latency, Service, Lag *hdrhistogram.Histogram

	// Timeline is what happened in each Interval of the run, by when it was answered.
	Interval time.Duration
	Timeline []Interval
	// Tally is what became of each subject's requests.
	Tally *Tally
	// Findings is the audit of each limit. It includes the warm-up.
	Findings []audit.Finding
	// ClockWentBack is the answers, of any limit, of instants before one that was known
	// when they were asked for. The order that they were decided in is not known then,
	// and the audit may be off by them.
	ClockWentBack int64
	// ErrorTexts is how often there was each error, and FirstError the first.
	ErrorTexts map[string]int64
	FirstError error

	throttled bool // a worker had to wait until its records were taken
}

// Interval is a part of a [Result]'s timeline.
type Interval struct {
	Offset                           time.Duration // from the beginning of the run
	Allowed, Denied, Errors, Dropped int64
	P50, P99, Max                    time.Duration // of the latency
}

// GeneratorLimited reports whether this machine was too slow to keep the schedule, so
// that the latencies are about it and not about the store.
func (r *Result) GeneratorLimited() bool {
	if r.throttled {
		return true
	}
	// Of few requests the p99 is a single one, which says nothing of the others.
	percentile := 99.0
	if n := float64(r.Lag.TotalCount()); n > 0 {
		percentile = min(99, max(50, 100*(1-fewLate/n)))
	}
	lag := r.Lag.ValueAtPercentile(percentile)
	return lag > 1000 && lag > r.Latency.ValueAtPercentile(percentile)/10
}

// fewLate is how many late requests are no reason to doubt the others.
const fewLate = 10

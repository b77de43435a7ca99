package loadgen

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/limitctl/limitctl/pkg/loadgen/audit"
	"github.com/limitctl/limitctl/pkg/loadgen/audit/interval"
)

// Result is what became of a run. One that [Config.Progress] is given changes as the
// run goes on, and is for the duration of that call.
type Result struct {
	Started time.Time
	// Elapsed is the time from the beginning to the last answer. For a schedule that was
	// sent to its end it lasts at least until that end, so that rates are about the whole
	// schedule.
	Elapsed     time.Duration
	Interrupted bool

	// Requests is how many were sent after the warm-up. Each was allowed or denied, or
	// answered without the limit, or ended in an error; Unknown is those of the errors that
	// may have been charged.
	Requests, Allowed, Denied, Errors, Unknown int64
	// Local is the requests that a local share of the limit decided, and Unguarded those
	// that a failure policy let in or turned away, because the store was away. Neither is
	// among Allowed and Denied, nor in the audit.
	Local, Unguarded int64
	// ByDecider is the answers of each decider that gave any, in the order of their numbers.
	ByDecider []Answers
	// Decided is how many requests were allowed or denied, including those of the warm-up.
	// The cost of a run is for all of these.
	Decided int64
	// Dropped is the requests that were not sent, because they were late by more than the
	// timeout.
	Dropped int64
	// Late is the requests answered more than [Config.LateAfter] after they were due.
	Late int64
	// Waited is the requests that found all workers busy when they were handed out,
	// and waited for one.
	Waited int64

	// Latency is from when a request was due to its answer, and Service from when it was
	// sent, of the requests that were allowed or denied. ErrorLatency is from when a request
	// was due to its error. Lag is how much later than due any request was ready to be
	// sent. Of one that waited for a worker it is how late this machine was at that time.
	// All are in microseconds, rounded up.
	Latency, Service, ErrorLatency, Lag *hdrhistogram.Histogram

	// Timeline is what happened in each Interval of the run, by when it was answered.
	Interval time.Duration
	Timeline []Interval
	// Tally is what became of each subject's requests.
	Tally *Tally
	// Findings is the audit of each limit. It includes the warm-up.
	Findings []audit.Finding
	// Sights is, for each limit that was audited by intervals, how far the audit could see. It
	// is nil if the store said when it decided.
	Sights []interval.Sight
	// ByClock, if it was asked for, is an audit of each limit by when its answers came, by
	// this machine's clock, instead of by when the store charged. Only its worst windows
	// mean anything.
	ByClock []audit.Finding
	// ClockWentBack is the answers, of any limit, of instants before one that was known
	// when they were asked for. The order of such decisions is not known, so the audit may
	// be wrong about them.
	ClockWentBack int64
	// Clock is what was found of the clock that decided.
	Clock ClockFinding
	// Record is the answers, if they were to be recorded, for [joint.NewReader]; or
	// NotRecorded says why there is none. A result of a run under way has neither.
	Record      []byte
	NotRecorded string
	// ErrorTexts is how often there was each error, and FirstError the first.
	ErrorTexts map[string]int64
	FirstError error

	throttled bool // a worker had to wait until its records were taken
}

// Interval is a part of a [Result]'s timeline.
type Interval struct {
	Offset                           time.Duration // from the beginning of the run
	Allowed, Denied, Errors, Dropped int64
	Local, Unguarded                 int64
	P50, P99, Max                    time.Duration // of the latency of all, errors included
}

// GeneratorLimited reports whether this machine was too slow to keep the schedule, so
// that the latencies are about it and not about the store. It is judged by how long the store
// took and not by the latency, which says nothing once requests wait for workers.
func (r *Result) GeneratorLimited() bool {
	if r.throttled {
		return true
	}
	// With few requests the p99 is a single one, which says nothing about the others.
	percentile := 99.0
	if n := float64(r.Lag.TotalCount()); n > 0 {
		percentile = min(99, max(50, 100*(1-fewLate/n)))
	}
	lag := r.Lag.ValueAtPercentile(percentile)
	return lag > 1000 && lag > r.foremostTimes().ValueAtPercentile(percentile)/10
}

// foremostTimes are how long the store took to decide, or how long else there was in a run
// that decided nothing.
func (r *Result) foremostTimes() *hdrhistogram.Histogram {
	switch {
	case r.Service.TotalCount() > 0:
		return r.Service
	case len(r.ByDecider) > 0:
		return r.ByDecider[0].Latency
	}
	return r.ErrorLatency
}

// fewLate is how many late requests are not yet a reason to doubt the others.
const fewLate = 10

package loadgen

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/limitctl/limitctl/pkg/loadgen/audit"
)

// Result is the result of a run or of a simulation, as JSON has it and as reports show it. A simulation has no times
// and no errors. The Result that [Config.Progress] gets is of what was answered so far.
type Result struct {
	StartedAt time.Time `json:"started_at"` // of a simulation, the first request's instant
	// Requests is those that were sent after the warm-up: allowed, denied, or ended in an error.
	Requests int64 `json:"requests"`
	// Allowed and Denied are what the limit itself decided.
	Allowed int64 `json:"allowed"`
	Denied  int64 `json:"denied"`
	Errors  int64 `json:"errors"`
	// Unknown is how many of the errors may have been charged all the same, and TimedOut how
	// many were requests that were not answered in time.
	Unknown  int64 `json:"unknown"`
	TimedOut int64 `json:"timed_out,omitempty"`
	// Dropped is the arrivals that could not be sent in time.
	Dropped int64 `json:"dropped"`
	// Late is the requests allowed or denied more than LateAfterMS after they were due.
	Late        int64 `json:"late"`
	LateAfterMS int64 `json:"late_after_ms,omitempty"`
	// Keys is the subjects that asked for something, KeysDenied those of them that were denied at least once.
	Keys       int64 `json:"keys"`
	KeysDenied int64 `json:"keys_denied"`
	// DurationMS is until the last answer; if the whole schedule was sent, at least until the end of the schedule.
	DurationMS int64 `json:"duration_ms"`
	// WarmupMS is the part of DurationMS, at its beginning, in which requests were only
	// audited. No other figure counts them.
	WarmupMS int64 `json:"warmup_ms,omitempty"`
	// ThroughputPerS is the decisions in a second: requests allowed or denied.
	ThroughputPerS float64 `json:"throughput_per_s"`

	// Latency is from when a request was due until its answer, Service from when it
	// was sent, of requests allowed or denied. AllowedService and DeniedService are the Service of each.
	// ErrorLatency is from when a request was due until its error. Lag is how much later than due the generator
	// itself was ready to send; a closed loop has none.
	Latency        *Quantiles `json:"latency_us,omitempty"`
	Service        *Quantiles `json:"service_us,omitempty"`
	AllowedService *Quantiles `json:"allowed_service_us,omitempty"`
	DeniedService  *Quantiles `json:"denied_service_us,omitempty"`
	ErrorLatency   *Quantiles `json:"error_latency_us,omitempty"`
	Lag            *Quantiles `json:"schedule_lag_us,omitempty"`
	// GeneratorLimited: the generator, not the store, was the limit, and the figures are about the machine it ran on.
	GeneratorLimited bool `json:"generator_limited"`

	Audit  Audit   `json:"audit"`  // of the limits that can deny, warm-up included
	Limits []Limit `json:"limits"` // each of the limits decided together
	// Clock is what was found of the clock that decided; nil where nothing could be.
	Clock *ClockFinding `json:"clock,omitempty"`
	// Timeline is what happened in each interval of the run, by the time of the answer.
	Timeline   []Interval `json:"timeline"`
	IntervalMS int64      `json:"interval_ms"`
	// ErrorTexts is the commonest errors, at most five.
	ErrorTexts []ErrorCount `json:"error_texts,omitempty"`

	// Tally has the counts of each subject. It changes while the run goes on.
	Tally *Tally `json:"-"`
	// Decided counts the requests that were allowed or denied, including the warm-up. The cost of a run is for all
	// of these.
	Decided int64 `json:"-"`
	// Waited counts the requests that found all workers busy when they were handed out, and waited for one.
	Waited int64 `json:"-"`
	// ClockWentBack counts the answers, of any limit, with an instant before one that was known when they were
	// requested. The order of such decisions is unknown, so the audit can be wrong about them.
	ClockWentBack int64 `json:"-"`
	FirstError    error `json:"-"`

	findings []audit.Finding // of the limits
}

// CountedMS is how long requests were sent that count: all but the warm-up, in ms.
func (r *Result) CountedMS() int64 { return r.DurationMS - r.WarmupMS }

// Interval is a part of a [Result]'s timeline.
type Interval struct {
	OffsetMS int64 `json:"offset_ms"` // of its beginning, from the run's
	Allowed  int64 `json:"allowed"`
	Denied   int64 `json:"denied"`
	Errors   int64 `json:"errors"`
	Dropped  int64 `json:"dropped"`
	// P50, P99 and Max are of the latency of all requests, errors included, in microseconds.
	P50 int64 `json:"p50_us"`
	P99 int64 `json:"p99_us"`
	Max int64 `json:"max_us"`
}

// Add adds the counts of another interval, and takes over the worse of its latencies.
func (i *Interval) Add(other *Interval) {
	i.Allowed += other.Allowed
	i.Denied += other.Denied
	i.Errors += other.Errors
	i.Dropped += other.Dropped
	i.P50, i.P99, i.Max = max(i.P50, other.P50), max(i.P99, other.P99), max(i.Max, other.Max)
}

// ErrorCount is how often there was an error.
type ErrorCount struct {
	// Text is the error, in words that are the same for equal errors.
	Text string `json:"text"`
	// Count is how many requests had it.
	Count int64 `json:"count"`
}

// commonest returns the errors that there were most often.
func commonest(texts map[string]int64) (all []ErrorCount) {
	const most = 5
	for text, count := range texts {
		all = append(all, ErrorCount{text, count})
	}
	slices.SortFunc(all, func(a, b ErrorCount) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Text, b.Text))
	})
	return all[:min(len(all), most)]
}

// Quantiles are of a distribution of times, in whole microseconds.
type Quantiles struct {
	P50   int64 `json:"p50"`   // half took at most that
	P90   int64 `json:"p90"`   // 90 % took at most that
	P95   int64 `json:"p95"`   // 95 %
	P99   int64 `json:"p99"`   // 99 %
	P999  int64 `json:"p999"`  // 99.9 %
	P9999 int64 `json:"p9999"` // 99.99 %
	Max   int64 `json:"max"`   // the longest
	Mean  int64 `json:"mean"`  // the mean
}

// newHistogram returns a histogram of microseconds up to an hour, to three significant digits.
func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(1, time.Hour.Microseconds(), 3)
}

// record adds a time to a histogram, rounded up to whole microseconds.
func record(h *hdrhistogram.Histogram, d time.Duration) {
	microseconds := int64((d + time.Microsecond - 1) / time.Microsecond)
	_ = h.RecordValue(min(max(microseconds, 0), h.HighestTrackableValue()))
}

// QuantilesOf returns the quantiles of a histogram of microseconds, or nil if nothing was recorded in it.
func QuantilesOf(h *hdrhistogram.Histogram) *Quantiles {
	if h == nil || h.TotalCount() == 0 {
		return nil
	}
	values := h.ValueAtPercentilesSlice([]float64{50, 90, 95, 99, 99.9, 99.99})
	return &Quantiles{
		P50: values[0], P90: values[1], P95: values[2], P99: values[3], P999: values[4], P9999: values[5], Max: h.Max(),
		Mean: int64(math.Round(h.Mean())),
	}
}

// isGeneratorLimited reports whether this machine was too slow to keep the schedule, so that the latencies are about
// the machine and not about the store. It compares the lag with the store's service time, since the latency says
// nothing once requests wait for workers.
func isGeneratorLimited(lag, service, errors *hdrhistogram.Histogram) bool {
	const (
		lateTimers = 2000 // how late timers usually are, in microseconds, and somewhat more
		fewLate    = 10   // a number of late requests that is no reason to doubt the others
	)
	// With few requests the p99 is a single request, which says nothing about the others.
	percentile := 99.0
	if n := float64(lag.TotalCount()); n > 0 {
		percentile = min(99, max(50, 100*(1-fewLate/n)))
	}
	if service.TotalCount() == 0 {
		service = errors
	}
	late := lag.ValueAtPercentile(percentile)
	return late > lateTimers && late > service.ValueAtPercentile(percentile)/10
}

// milliseconds returns a time in whole milliseconds, rounded up.
func milliseconds(d time.Duration) int64 { return int64((d + time.Millisecond - 1) / time.Millisecond) }

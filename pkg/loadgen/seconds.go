package loadgen

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Second is what became of the requests of one second of a run. Those of the warm-up are in WarmupRequests alone. The
// figures of all seconds add up to those of the [Result].
type Second struct {
	// At is when the second began.
	At time.Time `json:"at"`
	// OffsetMS is when the second began, from the beginning of the run.
	OffsetMS int64 `json:"offset_ms"`
	// DurationMS is 1000, and less for the last one of a run; 0 if only dropped requests were left for it.
	DurationMS int64 `json:"duration_ms"`
	// WarmupMS is how long of the second was warm-up; absent if it was none.
	WarmupMS int64 `json:"warmup_ms,omitempty"`
	// WarmupRequests is the requests of the warm-up that were answered in the second, which no other figure has; absent if there
	// were none.
	WarmupRequests int64 `json:"warmup_requests,omitempty"`
	// Planned is how many requests were due by the schedule; null for a closed loop.
	Planned *int64 `json:"planned"`
	// Requests is those that were answered or failed in the second. The sum of all lines is the report's figure, as for all that
	// is counted here.
	Requests int64 `json:"requests"`
	// Allowed is the requests that the limit itself allowed.
	Allowed int64 `json:"allowed"`
	// Denied is the requests that the limit itself denied.
	Denied int64 `json:"denied"`
	// Errors is the requests that failed.
	Errors int64 `json:"errors"`
	// Unknown is how many of the errors may have been charged all the same.
	Unknown int64 `json:"unknown"`
	// TimedOut is how many of the errors are requests that were not answered in time.
	TimedOut int64 `json:"timed_out"`
	// Dropped is the requests that were given up in the second, since they could not be sent in time.
	Dropped int64 `json:"dropped"`
	// ErrorTexts is the errors by their kind, the commonest first, at most five; absent if there were none.
	ErrorTexts []ErrorCount `json:"error_texts,omitempty"`
	// PlannedPerS is the rate by the schedule, warm-up apart; null for a closed loop.
	PlannedPerS *float64 `json:"planned_per_s"`
	// ReachedPerS is the rate of requests that were answered or failed. If it stays behind the planned one, the target or the load
	// generator is at its limit.
	ReachedPerS float64 `json:"reached_per_s"`
	// Latency is from when a request was due until its answer, of requests allowed or denied in the second; absent if there were
	// none.
	Latency *Quantiles `json:"latency_us,omitempty"`
}

// second is a second under way.
type second struct {
	Second
	offset  time.Duration
	latency *hdrhistogram.Histogram
	errors  map[string]int64
}

const (
	wholeSecond = time.Second
	// secondGrace is how long after its end a second is told: workers record an answer a little after it came.
	secondGrace = 100 * time.Millisecond
)

// seconds collects the seconds of a run, for the collector. A nil one collects nothing.
type seconds struct {
	run  *runner
	open []*second // that were not told yet, without a gap
	told int       // how many were told
	// What the plan has next, if more; drawn counts what was taken of it.
	next  Arrival
	more  bool
	drawn int64
	drops int64 // that were told
}

// newSeconds returns nil if nobody wants to know.
func newSeconds(r *runner) *seconds {
	if r.EachSecond == nil {
		return nil
	}
	s := &seconds{run: r}
	s.draw()
	return s
}

// draw takes the next request of the plan.
func (s *seconds) draw() {
	s.more = false
	if s.run.Planned == nil || s.run.Requests > 0 && s.drawn == s.run.Requests {
		return
	}
	s.next, s.more = s.run.Planned.Next()
	s.drawn++
}

// at returns the second of an answer. One that comes exactly at the end of a second is of that second, so that a run of whole
// seconds has no other at its end.
func (s *seconds) at(answered time.Duration) *second {
	i := max(s.told, int(max(0, answered-1)/wholeSecond))
	for len(s.open) <= i-s.told {
		second := &second{offset: time.Duration(s.told+len(s.open)) * wholeSecond, errors: map[string]int64{}, latency: newHistogram()}
		second.OffsetMS, second.At = second.offset.Milliseconds(), s.run.begin.Add(second.offset).UTC()
		s.open = append(s.open, second)
	}
	return s.open[i-s.told]
}

// add counts a request.
func (s *seconds) add(one *sample) {
	if s == nil {
		return
	}
	second := s.at(one.answered)
	if one.warmup {
		second.WarmupRequests++
		return
	}
	second.Requests++
	switch {
	case one.outcome == unknown:
		second.Unknown++
		second.Errors++
	case one.outcome == failed:
		second.Errors++
	default:
		if one.outcome == allowed {
			second.Allowed++
		} else {
			second.Denied++
		}
		record(second.latency, one.latency)
	}
}

// addError counts the error of a request that add has counted.
func (s *seconds) addError(one *sample, text string, late bool) {
	if s == nil {
		return
	}
	second := s.at(one.answered)
	second.errors[text]++
	if late {
		second.TimedOut++
	}
}

// tell tells the seconds that are over, dropped requests having been given up so far. The last one of the run waits for its end,
// which may drop more.
func (s *seconds) tell(now time.Duration, dropped int64) {
	if s == nil {
		return
	}
	for end := time.Duration(s.told+1) * wholeSecond; end+secondGrace <= now && end < s.run.end; end += wholeSecond {
		s.tellNext(end, dropped)
	}
}

// end tells the rest of a run that took elapsed.
func (s *seconds) end(elapsed time.Duration, dropped int64) {
	if s == nil {
		return
	}
	for len(s.open) > 0 || time.Duration(s.told)*wholeSecond < elapsed || dropped > s.drops {
		s.tellNext(min(elapsed, time.Duration(s.told+1)*wholeSecond), dropped)
	}
}

// tellNext tells the first second, which ends at an instant of the run.
func (s *seconds) tellNext(end time.Duration, dropped int64) {
	second := s.at(time.Duration(s.told)*wholeSecond + 1)
	length := max(0, end-second.offset)
	warmup := min(max(0, s.run.Warmup-second.offset), length)
	second.DurationMS, second.WarmupMS = milliseconds(length), milliseconds(warmup)
	perSecond := func(n int64) float64 {
		if length <= warmup {
			return 0
		}
		return float64(n) / (length - warmup).Seconds()
	}
	second.ReachedPerS = perSecond(second.Requests)
	if s.run.Load != nil && s.run.Planned != nil {
		planned := int64(0)
		for ; s.more && s.next.Due < end && s.next.Due < s.run.end; s.draw() {
			if s.next.Due >= s.run.Warmup {
				planned++
			}
		}
		rate := perSecond(planned)
		second.Planned, second.PlannedPerS = &planned, &rate
	}
	second.Dropped = dropped - s.drops
	s.drops = dropped
	second.Latency, second.ErrorTexts = QuantilesOf(second.latency), commonest(second.errors)
	s.run.EachSecond(&second.Second)
	s.open = s.open[1:]
	s.told++
}

package loadgen

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Second is what became of the requests of one second of a run. Those of the warm-up are in WarmedUp alone. The figures of all
// seconds add up to those of the [Result].
type Second struct {
	// Began is the beginning of the second, by this machine's clock, and Offset the same from the beginning of the run.
	Began  time.Time
	Offset time.Duration
	// Length is a second, and less for the last one of the run; 0 if only dropped requests were left for it.
	Length time.Duration
	// Warmup is how much of Length was warm-up, and WarmedUp counts the requests of the warm-up that were answered in the second.
	Warmup   time.Duration
	WarmedUp int64
	// Planned counts the requests that were due in the second by the schedule; -1 in a closed loop, which has none.
	Planned int64
	// Requests and the counts of answers and errors are as in the [Result], by the time of the answer. An answer that is
	// recorded after its second was told is in the next one.
	Requests, Allowed, Denied, Errors, Unknown, TimedOut int64
	// Dropped counts the requests that were given up in the second.
	Dropped int64
	// ErrorTexts counts the errors by their text.
	ErrorTexts map[string]int64
	// Latency is the time from when a request was due to its answer, in microseconds, for those that the limit allowed or denied.
	Latency *hdrhistogram.Histogram
}

const (
	wholeSecond = time.Second
	// secondGrace is how long after its end a second is told: workers record an answer a little after it came.
	secondGrace = 100 * time.Millisecond
)

// seconds collects the seconds of a run, for the collector. A nil one collects nothing.
type seconds struct {
	run  *runner
	open []*Second // that were not told yet, without a gap
	told int       // how many were told
	free []*hdrhistogram.Histogram
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
func (s *seconds) at(answered time.Duration) *Second {
	i := max(s.told, int(max(0, answered-1)/wholeSecond))
	for len(s.open) <= i-s.told {
		second := &Second{Offset: time.Duration(s.told+len(s.open)) * wholeSecond, Length: wholeSecond, Planned: -1}
		second.Began = s.run.begin.Add(second.Offset)
		if last := len(s.free) - 1; last >= 0 {
			second.Latency, s.free = s.free[last], s.free[:last]
			second.Latency.Reset()
		} else {
			second.Latency = newHistogram()
		}
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
		second.WarmedUp++
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
		record(second.Latency, one.latency)
	}
}

// addError counts the error of a request that add has counted.
func (s *seconds) addError(one *sample, text string, late bool) {
	if s == nil {
		return
	}
	second := s.at(one.answered)
	if second.ErrorTexts == nil {
		second.ErrorTexts = map[string]int64{}
	}
	second.ErrorTexts[text]++
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
	second.Length = max(0, end-second.Offset)
	second.Warmup = min(max(0, s.run.Warmup-second.Offset), second.Length)
	if s.run.Load != nil && s.run.Planned != nil {
		second.Planned = 0
		for ; s.more && s.next.Due < end && s.next.Due < s.run.end; s.draw() {
			if s.next.Due >= s.run.Warmup {
				second.Planned++
			}
		}
	}
	second.Dropped = dropped - s.drops
	s.drops = dropped
	s.run.EachSecond(second)
	s.free = append(s.free, second.Latency)
	s.open = s.open[1:]
	s.told++
}

package loadgen

import (
	"math"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// ClockFinding is the clock that decided, held against the one of this machine. Each
// decision was made between the sending of its request and the answer.
type ClockFinding struct {
	// Held is the calls with an instant, and Unreported those without one, which are audited by the time of their answers.
	Held       int64 `json:"held"`
	Unreported int64 `json:"untold,omitempty"`
	// AheadMS is how far the store's clock was ahead in the end.
	AheadMS float64 `json:"ahead_ms" range:"signed"`
	// Drift is how much faster the store's clock ran, as a share of the time: 0.02 for 2 %,
	// negative for a slow one. It is 0 if a steady clock explains all instants.
	Drift float64 `json:"drift" range:"signed"`
	// Jumps is how often the clock changed at once, and stayed so. Astray is the instants that
	// were wrong by themselves. FarthestMS is the most that an instant was away from where it
	// should have been, negative if it was too early.
	Jumps      int64   `json:"jumps,omitempty"`
	Astray     int64   `json:"astray,omitempty"`
	FarthestMS float64 `json:"farthest_ms,omitempty" range:"signed"`
	// CoarseMS is how long the clock stood still between two of its steps, if that was found.
	CoarseMS float64 `json:"coarse_ms,omitempty"`
}

const (
	// steady is the largest drift of clocks between two answers. More is a jump.
	steady = 0.1
	// sudden is the largest error of an instant that is still used.
	sudden = time.Second
	// clockTolerance is the error of an instant that does not count as an error.
	clockTolerance = 5 * time.Millisecond
	// jumpAfter is the number of instants in a row that have to agree on another time before it counts as a jump of
	// the clock.
	jumpAfter = 8
	// leastDrift is a drift that is normal: virtual machines correct their clocks by up to 1 part in 2,000.
	leastDrift = 0.001
)

// span is the range of how far the store's clock can be ahead of this one.
type span struct{ least, most time.Duration }

func (s span) middle() time.Duration { return s.least + (s.most-s.least)/2 }

func (s span) wider(by time.Duration) span { return span{s.least - by, s.most + by} }

// and returns the intersection, or if that is empty, the distance between the spans: positive if other is after s.
func (s span) and(other span) (both span, apart time.Duration) {
	both = span{max(s.least, other.least), min(s.most, other.most)}
	switch {
	case both.least <= both.most:
		return both, 0
	case other.least > s.most:
		return both, other.least - s.most
	}
	return both, other.most - s.least
}

// clockWatch follows the clock of a store through the instants of its decisions.
type clockWatch struct {
	begin store.Instant // of the run, by this machine's clock
	skew  time.Duration // the largest difference of the clocks of several servers
	known bool
	ahead span
	as    time.Duration // the time of ahead
	// first is the narrowest span of the beginning, and firstAt its time.
	first   span
	firstAt time.Duration
	until   time.Duration // the end of the beginning
	jumped  time.Duration // by all jumps together
	// other is the span of instants that do not fit, and agree how many of them agree.
	other            span
	otherAt          time.Duration
	agree            int
	finding          ClockFinding // without the times
	farthest, coarse time.Duration
	// same is the last instant, and sameAt the time when it came first.
	same   store.Instant
	sameAt time.Duration
}

// The beginning of a run, whose clock is compared with the end: a share of the run, but at most longBeginning.
const (
	beginningShare = 10
	longBeginning  = time.Second
)

func newClockWatch(begin time.Time, length, skew time.Duration) clockWatch {
	until := min(length/beginningShare, longBeginning)
	return clockWatch{begin: store.InstantOf(begin), skew: skew, until: until}
}

// hold compares the instant of a decision that was made between sent and answered. It reports whether that is
// possible.
func (c *clockWatch) hold(at store.Instant, sent, answered time.Duration) (right bool) {
	if at == 0 {
		c.finding.Unreported++
		return false
	}
	c.finding.Held++
	since := time.Duration(at-c.begin) * time.Microsecond
	c.step(at, sent, answered)
	// An instant is truncated to a microsecond, or to a step of a coarse clock.
	seen := span{since - answered, since + time.Microsecond + c.coarse - sent}.wider(c.skew)
	if !c.known {
		c.take(seen, answered)
		c.known, c.first, c.firstAt = true, seen, answered
		return true
	}
	passed := abs(answered - c.as) // workers' records come a little out of order
	both, apart := c.ahead.wider(time.Duration(steady * float64(passed))).and(seen)
	switch {
	case apart == 0:
		c.take(both, max(answered, c.as))
		c.agree = 0
	case abs(apart) <= clockTolerance+c.coarse:
		c.take(seen, max(answered, c.as))
		c.agree = 0
	default:
		return c.stray(seen, apart, answered)
	}
	if answered <= c.until && c.ahead.most-c.ahead.least <= c.first.most-c.first.least {
		c.first, c.firstAt = c.ahead, c.as
	}
	return true
}

// step measures how coarse the clock is, from equal instants of requests one after the other.
func (c *clockWatch) step(at store.Instant, sent, answered time.Duration) {
	const coarsest = time.Second
	if at != c.same {
		c.same, c.sameAt = at, answered
		return
	}
	c.sameAt = min(c.sameAt, answered)
	c.coarse = max(c.coarse, min(sent-c.sameAt, coarsest))
}

func (c *clockWatch) take(ahead span, as time.Duration) { c.ahead, c.as = ahead, as }

// stray handles an instant that does not fit. Several in a row that agree are a jump. An instant with a small error
// is counted as wrong but still used, since it shows the order of decisions best.
func (c *clockWatch) stray(seen span, apart, answered time.Duration) (right bool) {
	if abs(apart) > abs(c.farthest) {
		c.farthest = apart
	}
	c.finding.Astray++
	both, off := c.other.wider(clockTolerance + time.Duration(steady*float64(abs(answered-c.otherAt)))).and(seen)
	if c.agree == 0 || off != 0 {
		c.other, c.agree = seen, 0
	} else {
		c.other = both
	}
	c.otherAt = answered
	if c.agree++; c.agree < jumpAfter {
		return abs(apart) <= sudden
	}
	c.finding.Astray -= int64(c.agree)
	c.finding.Jumps++
	c.jumped += c.other.middle() - c.ahead.middle()
	c.take(c.other, answered)
	c.agree = 0
	return true
}

func abs(d time.Duration) time.Duration { return max(d, -d) }

// instant estimates the store's clock at that time since the beginning.
func (c *clockWatch) instant(at time.Duration) store.Instant {
	return c.begin + store.Instant((at+c.ahead.middle())/time.Microsecond)
}

// farAhead is the limit for how far an instant may be ahead of this machine's clock.
func (c *clockWatch) farAhead() time.Duration {
	if !c.known {
		return math.MaxInt64 / 2
	}
	return c.ahead.most + c.skew + sudden
}

// result returns the findings so far, nil if there are none.
func (c *clockWatch) result() *ClockFinding {
	f := c.finding
	if f.Held+f.Unreported == 0 {
		return nil
	}
	inMS := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	f.FarthestMS, f.CoarseMS = inMS(c.farthest), inMS(c.coarse)
	if !c.known {
		return &f
	}
	f.AheadMS = inMS(c.ahead.middle())
	if passed := c.as - c.firstAt; passed > 0 {
		// The drift is the distance between the span of the beginning and the span of now.
		_, moved := c.first.and(span{c.ahead.least - c.jumped, c.ahead.most - c.jumped})
		if drift := float64(moved) / float64(passed); abs(moved) > clockTolerance && (drift > leastDrift || drift < -leastDrift) {
			f.Drift = drift
		}
	}
	return &f
}

package loadgen

import (
	"math"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// ClockFinding is the clock that decided, held against the one of this machine. Each
// decision was made between the sending of its request and the answer.
type ClockFinding struct {
	// Held is the calls with an instant, and Unreported those without one, which are audited by the time of their
	// answers.
	Held       int64 `json:"held"`
	Unreported int64 `json:"untold,omitempty"`
	// Astray is the instants that cannot be true, and FarthestMS the most that one was away from where it should have
	// been, negative if it was too early.
	Astray     int64   `json:"astray,omitempty"`
	FarthestMS float64 `json:"farthest_ms,omitempty" range:"signed"`
}

const (
	// steady is a drift that is normal: virtual machines correct their clocks by up to 1 part in 2,000.
	steady = 0.001
	// sudden is the largest error of an instant that is still used, since it shows the order of decisions best.
	sudden = time.Second
	// clockTolerance is the error of an instant that does not count as an error: some clocks stand still for 16 ms.
	clockTolerance = 20 * time.Millisecond
)

// span is the range of how far the store's clock can be ahead of this one, at a time.
type span struct{ least, most, at time.Duration }

func (s span) wider(by time.Duration) span { return span{s.least - by, s.most + by, s.at} }

// apart is the distance between two spans: 0 if they overlap, positive if other is later.
func (s span) apart(other span) time.Duration {
	return max(0, other.least-s.most) - max(0, s.least-other.most)
}

// clockWatch compares the clock of a store with the one of this machine, by the instants of its decisions.
type clockWatch struct {
	begin   store.Instant // of the run, by this machine's clock
	skew    time.Duration // the largest difference of the clocks of several servers
	ahead   span          // what all answers so far say together
	finding ClockFinding
}

func newClockWatch(begin time.Time, skew time.Duration) clockWatch {
	return clockWatch{begin: store.InstantOf(begin), skew: skew}
}

// hold compares the instant of a decision that was made between sent and answered. It reports whether the instant can
// be used.
func (c *clockWatch) hold(at store.Instant, sent, answered time.Duration) (usable bool) {
	if at == 0 {
		c.finding.Unreported++
		return false
	}
	since := time.Duration(at-c.begin) * time.Microsecond
	// An instant is truncated to a microsecond.
	seen := span{since - answered, since + time.Microsecond - sent, answered}.wider(c.skew)
	if c.finding.Held++; c.finding.Held == 1 {
		c.ahead = seen
		return true
	}
	passed := abs(answered - c.ahead.at) // workers' records come a little out of order
	ahead := c.ahead.wider(time.Duration(steady * float64(passed)))
	apart := ahead.apart(seen)
	switch {
	case apart == 0:
		c.ahead = span{max(ahead.least, seen.least), min(ahead.most, seen.most), answered}
	case abs(apart) > clockTolerance:
		c.finding.Astray++
		if ms := float64(apart.Microseconds()) / 1000; math.Abs(ms) > math.Abs(c.finding.FarthestMS) {
			c.finding.FarthestMS = ms
		}
	}
	return abs(apart) <= sudden
}

func abs(d time.Duration) time.Duration { return max(d, -d) }

// instant estimates the store's clock at that time since the beginning.
func (c *clockWatch) instant(at time.Duration) store.Instant {
	return c.begin + store.Instant((at+(c.ahead.least+c.ahead.most)/2)/time.Microsecond)
}

// farAhead is the limit for how far an instant may be ahead of this machine's clock.
func (c *clockWatch) farAhead() time.Duration {
	if c.finding.Held == 0 {
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
	return &f
}

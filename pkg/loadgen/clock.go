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
	// AheadMS is how far the store's clock was ahead in the end.
	AheadMS float64 `json:"ahead_ms" range:"signed"`
	// Drift is how much faster the store's clock ran, as a share of the time: 0.02 for 2 %,
	// negative for a slow one. It is 0 if a steady clock explains all instants.
	Drift float64 `json:"drift" range:"signed"`
	// Astray is the instants that cannot be true, and FarthestMS the most that one was away from where it should have
	// been, negative if it was too early.
	Astray     int64   `json:"astray,omitempty"`
	FarthestMS float64 `json:"farthest_ms,omitempty" range:"signed"`
}

const (
	// steady is the largest drift of clocks between two answers.
	steady = 0.1
	// sudden is the largest error of an instant that is still used, since it shows the order of decisions best.
	sudden = time.Second
	// clockTolerance is the error of an instant that does not count as an error.
	clockTolerance = 5 * time.Millisecond
	// leastDrift is a drift that is normal: virtual machines correct their clocks by up to 1 part in 2,000.
	leastDrift = 0.001
)

// span is the range of how far the store's clock can be ahead of this one, at a time.
type span struct{ least, most, at time.Duration }

func (s span) width() time.Duration { return s.most - s.least }

func (s span) wider(by time.Duration) span { return span{s.least - by, s.most + by, s.at} }

// apart is the distance between two spans: 0 if they overlap, positive if other is later.
func (s span) apart(other span) time.Duration {
	return max(0, other.least-s.most) - max(0, s.least-other.most)
}

// clockWatch compares the clock of a store with the one of this machine, by the instants of its decisions.
type clockWatch struct {
	begin  store.Instant // of the run, by this machine's clock
	skew   time.Duration // the largest difference of the clocks of several servers
	length time.Duration // of the beginning and of the end: a tenth of the run, but at most a second
	// last is of the last answer. first and end are the narrowest ones of the beginning, and of the end so far.
	last, first, end span
	known            bool
	finding          ClockFinding // without the times
	farthest         time.Duration
	// coarse is how long the clock stands still between two of its steps, as far as that was seen. same is the last
	// instant, and sameAt the time when it came first.
	coarse time.Duration
	same   store.Instant
	sameAt time.Duration
}

func newClockWatch(begin time.Time, length, skew time.Duration) clockWatch {
	return clockWatch{begin: store.InstantOf(begin), skew: skew, length: min(length/10, time.Second)}
}

// hold compares the instant of a decision that was made between sent and answered. It reports whether the instant can
// be used.
func (c *clockWatch) hold(at store.Instant, sent, answered time.Duration) (usable bool) {
	if at == 0 {
		c.finding.Unreported++
		return false
	}
	c.finding.Held++
	since := time.Duration(at-c.begin) * time.Microsecond
	c.step(at, sent, answered)
	// An instant is truncated to a microsecond, or to a step of a coarse clock.
	seen := span{since - answered, since + time.Microsecond + c.coarse - sent, answered}.wider(c.skew)
	if c.known {
		passed := abs(answered - c.last.at) // workers' records come a little out of order
		apart := c.last.wider(time.Duration(steady * float64(passed))).apart(seen)
		if abs(apart) > clockTolerance+c.coarse {
			c.finding.Astray++
			if abs(apart) > abs(c.farthest) {
				c.farthest = apart
			}
			return abs(apart) <= sudden
		}
	}
	if !c.known || answered <= c.length && seen.width() < c.first.width() {
		c.first = seen
	}
	if !c.known || answered > c.end.at+c.length || seen.width() < c.end.width() {
		c.end = seen
	}
	c.last, c.known = seen, true
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

func abs(d time.Duration) time.Duration { return max(d, -d) }

// middle is the likeliest distance of the clocks now.
func (c *clockWatch) middle() time.Duration { return c.last.least + c.last.width()/2 }

// instant estimates the store's clock at that time since the beginning.
func (c *clockWatch) instant(at time.Duration) store.Instant {
	return c.begin + store.Instant((at+c.middle())/time.Microsecond)
}

// farAhead is the limit for how far an instant may be ahead of this machine's clock.
func (c *clockWatch) farAhead() time.Duration {
	if !c.known {
		return math.MaxInt64 / 2
	}
	return c.last.most + c.skew + sudden
}

// result returns the findings so far, nil if there are none.
func (c *clockWatch) result() *ClockFinding {
	f := c.finding
	if f.Held+f.Unreported == 0 {
		return nil
	}
	inMS := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	f.FarthestMS, f.AheadMS = inMS(c.farthest), inMS(c.middle())
	moved, passed := c.first.apart(c.end), c.end.at-c.first.at
	drift := float64(moved) / float64(max(passed, 1))
	if abs(moved) > clockTolerance+c.coarse && math.Abs(drift) > leastDrift {
		f.Drift = drift
	}
	return &f
}

package loadgen

import (
	"math"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// ClockFinding is the clock that decided, held against this machine's. Each decision was made
// between the sending of its request and the answer, so its instant says how far the two
// clocks were apart then, but for the time that the request took.
type ClockFinding struct {
	// Held is how many calls told an instant that was held against this machine's clock, and
	// Untold how many did not say when they were decided. Those were audited by when their
	// answers came, which is not exact.
	Held, Untold int64
	// Ahead is how far the store's clock was ahead of this machine's in the end, as well as that
	// can be told.
	Ahead time.Duration
	// Drift is how much faster than this machine's clock the store's ran, as a share of the time:
	// 0.02 for 2 %, negative for a slow one. It is the least that explains the instants, 0 if
	// a steady clock does.
	Drift float64
	// Jumps is how often the store's clock changed by more than any drift, and stayed so. Astray
	// is the instants that were wrong by themselves. Farthest is the most that an instant was
	// away from where it should have been, at each jump or astray, negative if it was too early.
	Jumps, Astray int64
	Farthest      time.Duration
	// Coarse is how long the store's clock stood still at least, between two of its steps.
	Coarse time.Duration
}

const (
	// steady is the most that clocks are taken to drift from one answer to the next. What goes
	// beyond it is a jump.
	steady = 0.1
	// sudden is how far an instant may be away and be believed.
	sudden = time.Second
	// clockTolerance is by how much an instant may be wrong before anybody minds.
	clockTolerance = 5 * time.Millisecond
	// jumpAfter is how many instants in a row have to agree on another time before the clock
	// is taken to have jumped to it.
	jumpAfter = 8
	// leastDrift is a drift that a clock may have without anything being wrong with it: those of
	// virtual machines are corrected by up to 1 part in 2,000.
	leastDrift = 0.001
)

// span is what is known of how far the store's clock is ahead of this one: from least to most.
type span struct{ least, most time.Duration }

func (s span) middle() time.Duration { return s.least + (s.most-s.least)/2 }

func (s span) wider(by time.Duration) span { return span{s.least - by, s.most + by} }

// and returns what is in both, and how far they are apart if nothing is: other after s is
// positive.
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

// clockWatch follows the clock of a store by the instants of its decisions.
type clockWatch struct {
	begin store.Instant // of the run, by this machine's clock
	skew  time.Duration // by how much the clocks of several servers may differ
	known bool
	ahead span
	as    time.Duration // when that was so
	// first is the narrowest of the beginning, and firstAt when that was so.
	first   span
	firstAt time.Duration
	until   time.Duration // when the beginning is over
	jumped  time.Duration // by all jumps together
	// other is what instants say that do not fit, and agree how many of them agree on it.
	other   span
	otherAt time.Duration
	agree   int
	finding ClockFinding
	// same is the last instant, and sameAt when it was told first.
	same   store.Instant
	sameAt time.Duration
}

// beginning is up to how much of a run, and up to how long, the clock is as it was at first.
const (
	beginningShare = 10
	longBeginning  = time.Second
)

func newClockWatch(begin time.Time, length, skew time.Duration) clockWatch {
	until := min(length/beginningShare, longBeginning)
	return clockWatch{begin: store.InstantOf(begin), skew: skew, until: until}
}

// hold takes the instant of a decision that was made between sent and answered. It reports
// whether that can be.
func (c *clockWatch) hold(at store.Instant, sent, answered time.Duration) (right bool) {
	if at == 0 {
		c.finding.Untold++
		return false
	}
	c.finding.Held++
	since := time.Duration(at-c.begin) * time.Microsecond
	c.step(at, sent, answered)
	// An instant is cut to a microsecond, or to a step of a coarse clock.
	seen := span{since - answered, since + time.Microsecond + c.finding.Coarse - sent}.wider(c.skew)
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
	case abs(apart) <= clockTolerance+c.finding.Coarse:
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

// step finds out how coarse the clock is: the same instant for requests one after the other.
func (c *clockWatch) step(at store.Instant, sent, answered time.Duration) {
	const coarsest = time.Second
	if at != c.same {
		c.same, c.sameAt = at, answered
		return
	}
	c.sameAt = min(c.sameAt, answered)
	c.finding.Coarse = max(c.finding.Coarse, min(sent-c.sameAt, coarsest))
}

func (c *clockWatch) take(ahead span, as time.Duration) { c.ahead, c.as = ahead, as }

// stray takes an instant that is away from where it should be. Several in a row that agree are a
// jump. An instant that is not far away is counted, and believed: it says best in which order the
// decisions were made.
func (c *clockWatch) stray(seen span, apart, answered time.Duration) (right bool) {
	if abs(apart) > abs(c.finding.Farthest) {
		c.finding.Farthest = apart
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

// instant returns what the store's clock showed at about that time since the beginning.
func (c *clockWatch) instant(at time.Duration) store.Instant {
	return c.begin + store.Instant((at+c.ahead.middle())/time.Microsecond)
}

// farAhead is how far ahead of this machine's clock an instant must not be to be believed.
func (c *clockWatch) farAhead() time.Duration {
	if !c.known {
		return math.MaxInt64 / 2
	}
	return c.ahead.most + c.skew + sudden
}

// result returns what was found so far.
func (c *clockWatch) result() ClockFinding {
	f := c.finding
	if !c.known {
		return f
	}
	f.Ahead = c.ahead.middle()
	if passed := c.as - c.firstAt; passed > 0 {
		// The drift is from where the clock was at most in the beginning to where it is at
		// least now, or the other way round.
		_, moved := c.first.and(span{c.ahead.least - c.jumped, c.ahead.most - c.jumped})
		if drift := float64(moved) / float64(passed); abs(moved) > clockTolerance && (drift > leastDrift || drift < -leastDrift) {
			f.Drift = drift
		}
	}
	return f
}

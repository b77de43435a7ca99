package layers

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/limitctl/limitctl/internal/panics"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// circuit is the breaker of a store, or of one of its parts.
type circuit struct {
	store *breakerStore
	part  string

	// epoch counts the changes between letting calls through and not: they go through
	// while it is even. Calls of an earlier epoch say nothing about this one.
	epoch atomic.Int64
	// well: calls go through, and none has failed since the last that went well. Then a
	// call that goes well takes no lock.
	well atomic.Bool

	// shown is the state for who does not hold the lock, such as a function that is told of changes.
	shown atomic.Uint32

	// The lock of the store guards these.
	state    BreakerState
	failures int           // in a row, while closed
	since    time.Time     // when it last was closed
	pause    time.Duration // from the last failure to the next try
	next     time.Time     // when that may begin
	refusal  error         // for calls while it is not closed
	sample   store.Key     // a key that was last known to be on the part
	gone     bool          // the store has no such part any more
}

func (c *circuit) init(s *breakerStore, part string) {
	c.store, c.part = s, part
	c.well.Store(true)
}

// tryAgain has the store probed with reqs, if it is time. The caller holds the lock and
// does not use reqs again.
func (c *circuit) tryAgain(reqs []store.Request) {
	if c.gone || c.state == BreakerClosed {
		return
	}
	c.sample = reqs[0].Key
	if c.state == BreakerOpen && !c.store.Clock().Before(c.next) {
		c.change(BreakerHalfOpen, nil)
		panics.Go(func() error { return c.store.probe(reqs) }, c.probed)
	}
}

// probed takes the answer to a probe.
func (c *circuit) probed(err error) {
	c.store.mu.Lock()
	defer c.store.mu.Unlock()
	switch {
	case c.gone:
	case store.IsAway(err):
		c.open(err)
	default:
		c.failures = c.store.Failures - 1 // a refusal is an answer, too
		c.epoch.Add(1)                    // before it is told, so that who hears of it is let through
		c.change(BreakerClosed, nil)
	}
}

// saysNothing reports whether an error says nothing about the store.
func saysNothing(err error) bool {
	return errors.Is(err, store.ErrGaveUp) || errors.Is(err, store.ErrInvalid)
}

// judge takes what came of a call of reqs, all on this part, that began in an epoch.
func (c *circuit) judge(err error, took time.Duration, epoch int64, reqs []store.Request) {
	slow := took > c.store.Slow
	if err == nil && !slow && c.well.Load() {
		return
	}
	failed := store.IsAway(err) || slow
	if !failed && saysNothing(err) {
		return
	}
	if err == nil && slow {
		err = fmt.Errorf("an answer took %s", took.Round(time.Millisecond))
	}
	s := c.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if part, named := partNamed(err); named && s.parted != nil && part != c.part {
		s.countElsewhere(part, failed, err)
		return
	}
	if failed && s.parted != nil {
		c.sample = reqs[0].Key
	}
	c.count(failed, err, epoch)
}

// count takes what a call says about the part, which began in an epoch. The caller holds
// the lock.
func (c *circuit) count(failed bool, err error, epoch int64) {
	switch {
	case c.gone || epoch != c.epoch.Load(): // it began before the breaker opened
	case !failed:
		c.failures, c.pause = 0, 0
		c.well.Store(true)
	default:
		c.well.Store(false)
		if c.failures++; c.failures >= c.store.Failures {
			c.since = c.store.Clock()
			c.open(err)
			c.epoch.Add(1)
		}
	}
}

// open opens the breaker, or keeps it open for longer. The caller holds the lock.
func (c *circuit) open(reason error) {
	c.pause = min(max(c.store.Pause, 2*c.pause), c.store.MaxPause)
	c.next = c.store.Clock().Add(c.pause)
	// The kind of the reason, such as an unknown outcome, is another call's.
	c.refusal = fmt.Errorf("%w (circuit open since %s); the last error was: %s", store.ErrUnavailable, c.since.Format("15:04:05"), reason)
	c.change(BreakerOpen, reason)
	c.store.forgetVanished(c)
}

// change tells of a state. The caller holds the lock, so that changes are told in order.
func (c *circuit) change(to BreakerState, reason error) {
	from := c.state
	c.state = to
	c.shown.Store(uint32(to))
	if c.store.OnChange != nil {
		c.store.OnChange(BreakerChange{Part: c.part, From: from, To: to, At: c.store.Clock(), Reason: reason})
	}
}

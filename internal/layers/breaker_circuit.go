package layers

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/limitctl/limitctl/internal/panics"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// circuit is the breaker of a store, or of one of its shards: so many failures in a row open it, and a recovery check
// that succeeds closes it.
type circuit struct {
	store *breakerStore
	shard string

	// epoch counts the changes between passing and refusing calls; it is even while calls pass. Results of calls
	// from an earlier epoch do not count.
	epoch atomic.Int64
	// well: calls pass, and none has failed since the last success. Then a success takes no lock.
	well atomic.Bool

	// shown is a copy of the state that needs no lock, for example in an observer.
	shown atomic.Uint32

	// Guarded by the lock of the store.
	state    store.BreakerState
	failures int           // in a row, while closed
	batches  []uint64      // those that are among the failures
	since    time.Time     // when it last changed from closed
	pause    time.Duration // from the last failure to the next recovery check
	next     time.Time     // the earliest time for it
	refusal  error         // the error of calls while it is not closed
	sample   store.Key     // a key that was in the shard when last seen
	gone     bool          // the store no longer has this shard
}

func (c *circuit) init(s *breakerStore, shard string) {
	c.store, c.shard = s, shard
	c.well.Store(true)
}

// tryAgain starts a recovery check with reqs, if it is time. The caller holds the lock and does not use reqs again.
func (c *circuit) tryAgain(reqs []store.Request) {
	if c.gone || c.state == store.BreakerClosed {
		return
	}
	c.sample = reqs[0].Key
	if c.state == store.BreakerOpen && !c.store.wallTime().Before(c.next) {
		c.change(store.BreakerHalfOpen, nil)
		panics.Go(func() error { return c.store.checkRecovery(reqs) }, c.recoveryChecked)
	}
}

// recoveryChecked handles the result of a recovery check.
func (c *circuit) recoveryChecked(err error) {
	c.store.mu.Lock()
	defer c.store.mu.Unlock()
	switch {
	case c.gone:
	case store.IsAway(err):
		c.open(err)
	default:
		c.failures = c.store.Failures - 1 // a refusal counts as an answer
		c.epoch.Add(1)                    // before the observer, so that who hears of it can call
		c.change(store.BreakerClosed, nil)
	}
}

// count counts the result of a call that began in an epoch. The caller holds the lock.
func (c *circuit) count(failed bool, err error, epoch int64) {
	switch {
	case c.gone || epoch != c.epoch.Load(): // it began before the breaker opened
	case !failed:
		c.failures, c.batches, c.pause = 0, nil, 0
		c.well.Store(true)
	default:
		c.well.Store(false)
		if c.counted(err) {
			return
		}
		if c.failures++; c.failures >= c.store.Failures {
			c.since = c.store.wallTime()
			c.open(err)
			c.epoch.Add(1)
		}
	}
}

// counted reports whether err is of a batch that is among the failures, and adds its batch to them. The caller holds
// the lock.
func (c *circuit) counted(err error) bool {
	var shared *store.BatchError
	if !errors.As(err, &shared) {
		return false
	}
	if slices.Contains(c.batches, shared.Batch) {
		return true
	}
	c.batches = append(c.batches, shared.Batch)
	return false
}

// open opens the breaker, or prolongs the pause. The caller holds the lock.
func (c *circuit) open(reason error) {
	c.pause = min(max(c.store.Pause, 2*c.pause), c.store.MaxPause)
	c.next, c.batches = c.store.wallTime().Add(c.pause), nil
	// The error of another call, such as an unknown outcome, must not be wrapped here.
	c.refusal = fmt.Errorf("%w (circuit open since %s); the last error was: %s", store.ErrUnavailable, c.since.Format("15:04:05"), reason)
	c.change(store.BreakerOpen, reason)
	c.store.forgetVanished(c)
}

// change sets the state and reports the change. The caller holds the lock, so that changes are reported in order.
func (c *circuit) change(to store.BreakerState, reason error) {
	from := c.state
	c.state = to
	c.shown.Store(uint32(to))
	c.store.Observer.breakerChanged(store.BreakerChange{Shard: c.shard, From: from, To: to, At: c.store.wallTime(), Reason: reason})
}

package interval

import (
	"slices"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// certain is what one key was admitted for certain, each unit as early as it can have been charged.
type certain struct {
	limit  *store.Limit
	period store.Instant // as short as it may look
	// bucket holds what no run of the limit can exceed, wherever its windows begin: it allows the count each period,
	// and at once the burst of a bucket, the count of a counter and one for its rounding, and of windows twice the
	// count.
	bucket store.State
	bound  store.Limit
	log    recent // of a log, and of windows
	// windows are what is known of the windows of a fixed window: turns.
	windows      []turn
	begun, ended int64 // units that were not too many

	last       recent      // all that was admitted in the last period
	held       store.State // in a bucket that is charged with what is too much, too
	worstUnits int64
	worst      float64
}

// turn says that the units that began after so many others, and are decided before an instant, are all of one window.
type turn struct {
	until store.Instant
	after int64
}

func newCertain(limit *store.Limit) certain {
	c := certain{limit: limit, period: shortest(limit)}
	c.log, c.last = newRecent(c.period), newRecent(c.period)
	c.bound = store.Limit{
		Algorithm: store.TokenBucket, Count: limit.Count, Period: limit.Period - limit.Period/drift,
		Burst: limit.Capacity(),
	}
	c.bound.Period = c.bound.Period.Truncate(1000)
	switch limit.Algorithm {
	case store.FixedWindow:
		c.bound.Burst = 2 * limit.Count
	case store.SlidingCounter:
		c.bound.Burst = limit.Count + 1
	default:
	}
	return c
}

// turns notes that a window is full, or that there is none, at an instant from lo on and before the units that have not
// begun: those that are decided within a period of it are of one window. But so many others may be of the one before,
// which had room for them.
func (c *certain) turns(lo store.Instant, others int64) {
	t, last := turn{lo + c.period, c.begun + others}, len(c.windows)-1
	switch {
	case last < 0 || c.windows[last].after < t.after && c.windows[last].until+c.period/steps < t.until:
		c.windows = append(c.windows, t)
	case c.windows[last].after == t.after:
		c.windows[last].until = max(c.windows[last].until, t.until)
	}
}

// place takes units that were admitted from lo to hi. Neither is before that of units that were placed before. It
// returns how many more are too many for sure; those are not charged.
func (c *certain) place(lo, hi store.Instant, units int64) (over int64) {
	all := units
	switch c.limit.Algorithm {
	case store.FixedWindow:
		for len(c.windows) > 0 && c.windows[0].until <= hi {
			c.windows = c.windows[1:]
		}
		c.ended += units
		if t := c.window(hi); t != nil {
			over = max(0, c.ended-t.after-c.limit.Count)
			c.ended, c.begun = c.ended-over, c.begun-over
		}
		over += max(0, c.log.at(hi)+units-over-2*c.limit.Count) // a period meets two windows at most
		c.log.add(lo-lo%c.log.step, units-over)
		over += c.pour(lo, hi, units-over)
	case store.SlidingLog:
		over = max(0, c.log.at(hi)+units-c.limit.Count)
		at := c.fits(units-over, lo)
		c.log.add(at-at%c.log.step, units-over)
	default:
		over = c.pour(lo, hi, units)
	}
	c.last.at(hi)
	c.last.add(lo-lo%c.last.step, all)
	c.worstUnits = max(c.worstUnits, c.last.units)
	if c.limit.Algorithm.HasBurst() {
		c.held.Charge(c.bound, all, lo)
		held := max(c.bucket.Used(c.bucket.Time)+over, c.held.Used(max(hi, c.held.Time)))
		c.worst = max(c.worst, float64(held)/float64(c.limit.Burst))
	} else {
		c.worst = max(c.worst, float64(c.worstUnits)/float64(c.limit.Count))
	}
	return over
}

// window returns the oldest turn whose window an instant is in for certain; nil if there is none.
func (c *certain) window(at store.Instant) *turn {
	if i := slices.IndexFunc(c.windows, func(t turn) bool { return t.until > at }); i >= 0 {
		return &c.windows[i]
	}
	return nil
}

// pour charges units to the bucket at the earliest instant from lo to hi at which they fit, and returns how many do
// not.
func (c *certain) pour(lo, hi store.Instant, units int64) (over int64) {
	at := max(lo, c.bucket.Time)
	if fit := min(units, c.bound.Burst-c.bucket.Used(at)); fit > 0 {
		c.bucket.Charge(c.bound, fit, at)
		units -= fit
	}
	if units == 0 {
		return 0
	}
	fit := min(units, c.bound.Burst-c.bucket.Used(max(hi, at)))
	if fit > 0 {
		c.bucket.Charge(c.bound, fit, c.fitsBucket(fit, at))
	}
	return units - max(0, fit)
}

func (c *certain) fitsBucket(units int64, at store.Instant) store.Instant {
	request := store.Request{Limit: c.bound, Cost: min(units, c.bound.Burst)}
	return at + microseconds(c.bucket.Answer(&request, at, false).RetryAfter)
}

// used returns the least that can be in use at every instant up to one that is not before those so far.
func (c *certain) used(at store.Instant) int64 {
	switch c.limit.Algorithm {
	case store.FixedWindow:
		if t := c.window(at); t != nil {
			return max(0, c.ended-t.after)
		}
		return 0
	case store.SlidingLog:
		return c.log.left(at)
	default:
		return c.bucket.Used(max(at, c.bucket.Time))
	}
}

// fits returns the earliest instant, not before at, at which so many units can fit.
func (c *certain) fits(units int64, at store.Instant) store.Instant {
	switch c.limit.Algorithm {
	case store.FixedWindow:
		return c.more(at)
	case store.SlidingLog:
		room := c.limit.Count - c.log.units
		for i := 0; i < len(c.log.pairs) && room < units; i++ {
			room += c.log.pairs[i].units
			at = max(at, c.log.pairs[i].at+c.period)
		}
		return at
	default:
		return c.fitsBucket(units, max(at, c.bucket.Time))
	}
}

// more returns the earliest instant, not before at, at which anything can be back that is in use.
func (c *certain) more(at store.Instant) store.Instant {
	if t := c.window(at); t != nil && c.ended > t.after { // else its window may not have begun
		return t.until
	}
	return at
}

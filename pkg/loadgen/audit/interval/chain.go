package interval

import (
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// chain audits windows that begin with the first request after the end of the last window. No order of
// the requests is the kindest: a later first request makes its window end later, which may be better or
// worse. So the chain follows all instants at which a window can have begun: for each unit that can have
// been the first of a window, the earliest instant. The latest instant is the end of the unit's interval,
// since a request can always come late.
type chain struct {
	limit *store.Limit // with the period as short as it may look
	// longest is the period as long as it may look. No length is kindest: a longer window can hold a late unit that begins
	// the next window too early otherwise.
	longest store.Instant
	units   int64 // that were not too many
	last    store.Instant
	// starts is the units that can have been the first of a window, the oldest unit first. An older unit is
	// dropped if a later one can have begun a window as early.
	starts   queue[start]
	broken   int64 // how often no chain of windows was possible
	startsAt bool  // the last unit can have been first

	// A span of time touches at most two windows more than it has periods. So a bucket with a burst of twice
	// the count bounds the units in it.
	bucket     kindest
	bucketOver int64
	double     store.Limit
	unknownEnd store.Instant // until when a request whose fate is unknown can begin a window
}

// start is a unit that can have been a window's first.
type start struct {
	unit     int64
	from, to store.Instant // when
}

func newChain(limit *store.Limit) *chain {
	double := store.Limit{Algorithm: store.TokenBucket, Count: limit.Count, Period: limit.Period, Burst: 2 * limit.Count}
	shortest := periodOf(limit)
	return &chain{limit: limit, longest: shortest + 2*(shortest/(drift-1)), double: double}
}

// place implements [placer].
func (c *chain) place(lo, hi store.Instant, units int64) (tooMany int64) {
	before := max(c.broken, c.bucketOver)
	c.bucketOver += c.bucket.place(&c.double, lo, hi, units)
	for range units {
		c.add(lo, hi)
	}
	return max(c.broken, c.bucketOver) - before
}

// add adds a unit.
func (c *chain) add(lo, hi store.Instant) {
	period := periodOf(c.limit)
	c.startsAt = false
	first := start{c.units, lo, hi}
	if c.units == 0 && c.broken == 0 {
		if c.startsAt = true; c.unknownEnd > 0 {
			first.from = lo - c.longest
		}
	} else {
		for s := c.starts.first(); s != nil && (s.unit < c.units-c.limit.Count || s.to <= c.last-c.longest); s = c.starts.first() {
			c.starts.pop()
		}
		if s := c.starts.first(); s != nil {
			ends := max(s.from+period, c.last+1)
			if first.from = max(lo, ends); c.unknownEnd >= c.last {
				first.from = ends // another request can have begun the window before
			}
			c.startsAt = first.from <= hi
		}
	}
	newest := c.starts.last()
	belongs := newest != nil && newest.unit > c.units-c.limit.Count && newest.to > lo-c.longest
	switch {
	case c.startsAt:
		for s := c.starts.last(); s != nil && s.from >= first.from; s = c.starts.last() {
			c.starts.popLast()
		}
		c.starts.push(first)
	case !belongs:
		// One unit was too many. Which one is not known, so nothing is known of the windows
		// from here on.
		c.broken++
		c.starts = queue[start]{}
		c.starts.push(start{c.units, lo - c.longest, hi})
		c.last = lo - 1
		return
	}
	c.units++
	c.last = lo
}

// spare implements [placer].
func (c *chain) spare(store.Instant) int64 {
	newest := c.starts.last()
	if newest == nil || c.startsAt {
		return c.limit.Count
	}
	return c.limit.Count - (c.units - newest.unit)
}

// used implements [placer]. Where the window can have ended, nothing is.
func (c *chain) used(hi store.Instant) int64 {
	newest := c.starts.last()
	if newest == nil || c.broken > 0 || hi >= c.ends() || c.unknownEnd > 0 {
		return 0
	}
	return c.units - newest.unit
}

// fits implements [placer].
func (c *chain) fits(_ int64, at store.Instant) store.Instant { return max(at, c.ends()) }

// ends returns the earliest instant at which the window of the last unit can end, whichever unit began it.
func (c *chain) ends() store.Instant {
	oldest := c.starts.first()
	if oldest == nil || c.unknownEnd > 0 {
		return -maxInstant
	}
	return oldest.from + periodOf(c.limit)
}

// uncertain implements [placer].
func (c *chain) uncertain(until store.Instant) { c.unknownEnd = max(c.unknownEnd, until) }

func (c *chain) clone() placer {
	clone := *c
	clone.starts, clone.bucket = c.starts.clone(), kindest{*c.bucket.state.Clone()}
	return &clone
}

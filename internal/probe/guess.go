package probe

import (
	"time"

	"github.com/limitctl/limitctl/internal/endpoint"
	"github.com/limitctl/limitctl/internal/probe/headers"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// usual are periods that people choose.
var usual = []time.Duration{
	time.Second, time.Minute, 10 * time.Second, time.Hour, 30 * time.Second, 5 * time.Second, 2 * time.Second,
	15 * time.Second,
	20 * time.Second, 3 * time.Second, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 100 * time.Millisecond,
	500 * time.Millisecond, 200 * time.Millisecond,
}

// reach is a range of durations.
type reach struct{ low, high time.Duration }

// period returns the period of a range that people would choose: what was told, or the usual one next to its lower
// third.
func (r reach) period(told time.Duration) (period time.Duration, isUsual bool) {
	if told > 0 && r.low <= told && told <= r.high {
		return told, true
	}
	off := func(period time.Duration) time.Duration { return (period - (2*r.low+r.high)/3).Abs() }
	for _, one := range usual {
		if r.low <= one && one <= r.high && (period == 0 || off(one) < off(period)) {
			period = one
		}
	}
	if period > 0 {
		return period, true
	}
	return max(store.MinPeriod, r.high.Round(time.Millisecond)), false
}

// guess returns limits that answer like what was seen, the likeliest first: a window, or a bucket. They are guesses,
// for somebody who checks them.
func (l *looker) guess() []store.Limit {
	var told headers.Limit
	for _, one := range l.seen.Told {
		if one.Window > 0 && (told.Window == 0 || one.Count == int64(l.seen.Passed)) {
			told = one
		}
	}
	n, back := int64(l.seen.Passed), l.seen.Back
	switch {
	case (len(back) == 0 || n == 0) && told.Window > 0:
		return []store.Limit{{Algorithm: store.FixedWindow, Count: told.Count, Period: told.Window},
			{Count: told.Count, Period: told.Window}}
	case len(back) == 0 || n == 0:
		return nil
	case int64(back[0].Units) <= n/2:
		if buckets := l.guessBucket(&told); buckets != nil {
			return buckets
		}
	}
	if told.Window <= 0 {
		told.Window = l.read(l.denied()).RetryAfter
	}
	// What comes back all at once is a window. It began with the first request, unless the next one is shorter than
	// that tells.
	window := reach{back[0].After.Sub(l.first.Answered), back[0].By.Sub(l.first.Sent) + time.Millisecond}
	period, isUsual := window.period(told.Window)
	aligned := store.Limit{Algorithm: store.FixedWindow, Count: n, Period: period}
	if len(back) > 1 && int64(back[0].Units) > n/2 {
		between := reach{back[1].After.Sub(back[0].By), back[1].By.Sub(back[0].After) + time.Millisecond}
		if other, is := between.period(told.Window); is && other != period || between.low > window.high {
			aligned.Period = other
			return []store.Limit{aligned}
		}
	}
	limits := []store.Limit{aligned, {Algorithm: store.SlidingLog, Count: n, Period: period}, aligned}
	if limits[0].FromFirst = true; isUsual {
		return limits
	}
	limits = limits[:2]
	if period, isUsual := l.silence().period(0); isUsual {
		limits = append(limits, store.Limit{Algorithm: store.FixedWindow, Count: n, Period: period, FromFirst: true})
	}
	return limits
}

// silence is how long nobody asked before the first admission after a denial: the period, if denied requests begin it
// anew.
func (l *looker) silence() (r reach) {
	var before *Event
	for i := range l.events {
		e := &l.events[i]
		switch {
		case before == nil || before.Outcome != endpoint.Denied:
		case e.Outcome == endpoint.Denied:
			r.low = max(r.low, e.Sent.Sub(before.Answered))
		default:
			r.high = e.Answered.Sub(before.Sent)
			return r
		}
		before = e
	}
	return r
}

// guessBucket returns a bucket that gives back as fast as was seen, and of which so many pass at first: of a round size
// that takes a usual time to fill, or else of what passed. It returns nil if no bucket does.
func (l *looker) guessBucket(told *headers.Limit) []store.Limit {
	back, passed := l.seen.Back, int64(l.seen.Passed)
	each := reach{back[0].After.Sub(l.denied().Answered), back[0].By.Sub(l.first.Sent)} // for a unit
	switch {
	case told.Count > 2 && each.low > told.Window/2 && told.Window > 0: // it is a log: a bucket's first is back sooner
		return nil
	case told.Window > 0:
		return []store.Limit{{Count: told.Count, Period: told.Window}}
	}
	if units := time.Duration(back[0].Units); len(back) > 1 {
		each.low = max(each.low, back[1].After.Sub(back[0].By)/units)
		each.high = min(each.high, back[1].By.Sub(back[0].After)/units)
	}
	each.low, each.high = max(each.low, 100*time.Microsecond), each.high+time.Millisecond
	isRound := func(n int64) bool { return n <= 5 || n%5 == 0 }
	least := passed - int64(l.seen.PassedIn/each.low) - 1 // the rest came back meanwhile
	for size := passed; size >= max(1, least); size-- {
		period, isUsual := reach{max(each.low*time.Duration(size), time.Second),
			each.high * time.Duration(size)}.period(0)
		if isUsual && isRound(size) {
			return []store.Limit{{Count: size, Period: period}}
		}
	}
	for _, period := range []time.Duration{time.Second, time.Minute, time.Hour} {
		for count := int64(period / each.low); count > 0 && period/time.Duration(count) <= each.high; count-- {
			if isRound(count) {
				return []store.Limit{{Count: count, Period: period, Burst: passed}}
			}
		}
	}
	return nil
}

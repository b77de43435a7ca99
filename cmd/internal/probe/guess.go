package probe

import (
	"time"

	"github.com/limitctl/limitctl/cmd/internal/probe/headers"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// usual are periods that people choose, the likeliest first.
var usual = []time.Duration{
	time.Second, time.Minute, 10 * time.Second, time.Hour, 30 * time.Second, 5 * time.Second, 2 * time.Second, 15 * time.Second,
	20 * time.Second, 3 * time.Second, 4 * time.Second, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 100 * time.Millisecond,
	500 * time.Millisecond, 200 * time.Millisecond, 250 * time.Millisecond,
}

// reach is a range of durations.
type reach struct{ low, high time.Duration }

func (r reach) has(d time.Duration) bool { return r.low <= d && d <= r.high }

// usual returns the period of a range that people would choose; told is likelier than any, and 0 is none.
func (r reach) usual(told time.Duration) time.Duration {
	for _, period := range append([]time.Duration{told}, usual...) {
		if period > 0 && r.has(period) {
			return period
		}
	}
	return 0
}

// period returns a period of a range, with few digits.
func (r reach) period(told time.Duration) time.Duration {
	if period := r.usual(told); period > 0 {
		return period
	}
	for unit := time.Minute; unit >= time.Millisecond; unit /= 10 {
		if rounded := r.high.Truncate(unit); rounded > 0 && r.has(rounded) {
			return rounded
		}
	}
	return max(store.MinPeriod, r.high.Round(time.Millisecond))
}

// guess returns limits that answer like what was seen, the likeliest first. They are guesses, for somebody who checks them.
func (l *looker) guess() (limits []store.Limit) {
	var told headers.Limit
	for _, one := range l.seen.Told {
		if one.Window > 0 && (told.Window == 0 || one.Count == int64(l.seen.Passed)) {
			told = one
		}
	}
	add := func(limit store.Limit) { limits = append(limits, limit) }
	n, back := int64(l.seen.Passed), l.seen.Back
	switch {
	case len(back) == 0 || n == 0:
		if told.Window > 0 {
			add(store.Limit{Algorithm: store.FixedWindow, Count: told.Count, Period: told.Window})
			add(store.Limit{Count: told.Count, Period: told.Window})
		}
	case int64(back[0].Units) <= n/2:
		l.guessBucket(told, add)
	default:
		l.guessWindow(told, add)
	}
	return limits
}

// guessWindow adds limits that give back all at once.
func (l *looker) guessWindow(told headers.Limit, add func(store.Limit)) {
	n, back := int64(l.seen.Passed), l.seen.Back
	since := reach{back[0].After.Sub(l.first.Answered), back[0].By.Sub(l.first.Sent) + time.Millisecond} // the first request
	between := since
	switch {
	case l.seen.Renews:
		since = reach{back[0].Pause, back[0].Quiet + time.Millisecond}
		between = since
	case len(back) > 1:
		between = reach{back[1].After.Sub(back[0].By), back[1].By.Sub(back[0].After) + time.Millisecond}
	}
	fromFirst := reach{max(since.low, between.low), min(since.high, between.high)}
	if fromFirst.low > fromFirst.high || fromFirst.usual(told.Window) == 0 && between.usual(told.Window) > 0 {
		// The windows do not begin with a request.
		add(store.Limit{Algorithm: store.FixedWindow, Count: n, Period: between.period(told.Window)})
		return
	}
	period := fromFirst.period(told.Window)
	add(store.Limit{Algorithm: store.FixedWindow, Count: n, Period: period, FromFirst: true})
	add(store.Limit{Algorithm: store.SlidingLog, Count: n, Period: period})
	add(store.Limit{Algorithm: store.FixedWindow, Count: n, Period: period})
}

// guessBucket adds limits that give back a few units at a time.
func (l *looker) guessBucket(told headers.Limit, add func(store.Limit)) {
	back := l.seen.Back
	// A unit came back until the first return, and as many as were admitted then until the second.
	each := reach{back[0].Least, back[0].Most + time.Millisecond}
	if len(back) > 1 {
		units := time.Duration(back[0].Units)
		each = reach{back[1].After.Sub(back[0].By) / units, (back[1].By.Sub(back[0].After) + time.Millisecond) / units}
	}
	each.low = max(each.low, 100*time.Microsecond)
	n := max(1, int64(l.seen.Passed)-int64(l.seen.PassedIn/each.high)) // less what came back meanwhile
	all := reach{each.low * time.Duration(n), each.high * time.Duration(n)}
	if period := all.usual(told.Window); period > 0 {
		add(store.Limit{Count: n, Period: period})
		add(store.Limit{Algorithm: store.SlidingCounter, Count: n, Period: period})
		return
	}
	for _, period := range []time.Duration{time.Second, time.Minute, time.Hour} {
		if count := int64(period / each.low); count > 0 && each.has(period/time.Duration(count)) {
			add(store.Limit{Count: count, Period: period, Burst: n})
			return
		}
	}
	add(store.Limit{Count: 1, Period: each.period(0), Burst: n})
}

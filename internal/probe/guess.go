package probe

import (
	"time"

	"github.com/limitctl/limitctl/internal/endpoint"
	"github.com/limitctl/limitctl/internal/probe/headers"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// usual are periods that people choose, the likeliest first.
var usual = []time.Duration{
	time.Second, time.Minute, 10 * time.Second, time.Hour, 30 * time.Second, 5 * time.Second, 2 * time.Second, 15 * time.Second,
	20 * time.Second, 3 * time.Second, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 100 * time.Millisecond,
	500 * time.Millisecond, 200 * time.Millisecond,
}

// reach is a range of durations.
type reach struct{ low, high time.Duration }

// period returns the period of a range that people would choose; told is likelier than any.
func (r reach) period(told time.Duration) (period time.Duration, isUsual bool) {
	for _, period := range append([]time.Duration{told}, usual...) {
		if period > 0 && r.low <= period && period <= r.high {
			return period, true
		}
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

// silence is how long nobody asked before the first admission after a denial: the period, if denied requests begin it anew.
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

// guessBucket returns a bucket that was full at the first request: of a size with which it takes a usual time to fill,
// or else of what passed.
func (l *looker) guessBucket(told *headers.Limit) []store.Limit {
	marks, passed := l.marks(), int64(l.seen.Passed)
	for size := passed; size > int64(l.seen.Back[0].Units); size-- {
		if size > 5 && size%5 > 0 && size != passed && size != told.Count { // people choose round numbers
			continue
		}
		each, count := refill(marks, size), time.Duration(size)
		period, isUsual := reach{each.low * count, min(each.high, 1<<62/count) * count}.period(told.Window)
		if isUsual && each.low < each.high {
			return []store.Limit{{Count: size, Period: period}}
		}
	}
	each := refill(marks, passed)
	for _, period := range []time.Duration{time.Second, time.Minute, time.Hour} {
		if count := period / max(1, each.low); count > 0 && period/count <= each.high {
			return []store.Limit{{Count: int64(count), Period: period, Burst: passed}}
		}
	}
	return nil
}

// mark is a denial, or an admission right before one, and how many had been admitted by then: at most, or at least.
type mark struct {
	denied   bool
	since    time.Duration // the first admission, at least or at most
	admitted int64
}

// marks returns what bounds the refill of a bucket.
func (l *looker) marks() (marks []mark) {
	admitted := func(is func(*Event) bool) (n int64) {
		for i := range l.events {
			if e := &l.events[i]; e.Outcome == endpoint.Allowed && is(e) {
				n++
			}
		}
		return n
	}
	wasDenied := false
	for i := len(l.events) - 1; i >= 0; i-- {
		e := &l.events[i]
		switch denied := e.Outcome == endpoint.Denied; {
		case denied:
			n := admitted(func(other *Event) bool { return other.Sent.Before(e.Answered) })
			marks = append(marks, mark{true, e.Sent.Sub(l.first.Answered), n})
		case e.Outcome == endpoint.Allowed && wasDenied:
			n := admitted(func(other *Event) bool { return !other.Answered.After(e.Answered) })
			marks = append(marks, mark{false, e.Answered.Sub(l.first.Sent) + time.Millisecond, n})
		}
		wasDenied = e.Outcome == endpoint.Denied
	}
	return marks
}

// refill is how long a unit takes in a bucket of a size that answers like that. It was full at the first request.
func refill(marks []mark, size int64) reach {
	each := reach{100 * time.Microsecond, 1 << 62}
	for _, m := range marks {
		switch more := time.Duration(m.admitted - size); {
		case m.denied && more < 0: // it would have been admitted
			return reach{}
		case m.denied:
			each.low = max(each.low, m.since/(more+1))
		case more > 0:
			each.high = min(each.high, m.since/more)
		}
	}
	return each
}

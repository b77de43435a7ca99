package probe

import (
	"cmp"
	"slices"
	"time"

	"github.com/limitctl/limitctl/internal/endpoint"
	"github.com/limitctl/limitctl/internal/probe/headers"
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
		if told.Window > 0 && n <= told.Count {
			add(store.Limit{Algorithm: store.FixedWindow, Count: told.Count, Period: told.Window})
		}
		if told.Window > 0 {
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
	renews := l.seen.Renews || l.anew
	if told.Window <= 0 && (renews || since.usual(0) == 0) {
		told.Window = l.read(l.denied()).RetryAfter
	}
	switch {
	case renews:
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

// mostBuckets is how many buckets are offered.
const mostBuckets = 2

// guessBucket adds limits that give back a few units at a time: buckets, and sliding windows only if no bucket fits.
func (l *looker) guessBucket(told headers.Limit, add func(store.Limit)) {
	type fit struct {
		limit store.Limit
		rank  int
		slack float64 // how far a refill is from contradicting the answers, as a part of it
	}
	n, back := int64(l.seen.Passed), l.seen.Back
	var fits, others []fit
	marks := l.marks()
	offer := func(to *[]fit, limit store.Limit, each reach, rank int) {
		one, size := limit.Period/time.Duration(limit.Count), max(limit.Count, limit.Burst)
		if size > 5 && size%5 > 0 {
			rank += 2 // people choose round numbers
		}
		*to = append(*to, fit{limit, rank, float64(min(one-each.low, each.high-one)) / float64(one)})
	}
	for size := int64(back[0].Units) + 1; size <= n; size++ {
		each := refill(marks, size)
		if each.low >= each.high {
			continue
		}
		for _, period := range append([]time.Duration{told.Window}, usual...) {
			if one := period / time.Duration(size); one > 0 && each.has(one) {
				rank := map[bool]int{true: -4}[period == told.Window]
				offer(&fits, store.Limit{Count: size, Period: period}, each, rank)
			}
		}
		other := store.Limit{Count: 1, Period: each.period(0), Burst: size}
		for _, period := range []time.Duration{time.Second, time.Minute, time.Hour} {
			if count := int64(period / each.low); count > 0 && each.has(period/time.Duration(count)) {
				other.Count, other.Period = count, period
				break
			}
		}
		offer(&others, other, each, 0)
	}
	if len(fits) == 0 {
		fits = others
	}
	slices.SortStableFunc(fits, func(a, b fit) int { return cmp.Or(a.rank-b.rank, cmp.Compare(b.slack, a.slack)) })
	for i, best := range fits {
		if i < mostBuckets && !slices.ContainsFunc(fits[:i], func(f fit) bool { return f.limit == best.limit }) {
			add(best.limit)
		}
	}
	if len(fits) > 0 {
		return
	}
	since := reach{back[0].After.Sub(l.first.Answered), back[0].By.Sub(l.first.Sent) + time.Millisecond}
	if period := since.usual(told.Window); period > 0 {
		add(store.Limit{Algorithm: store.SlidingLog, Count: n, Period: period})
	}
	if len(back) > 1 {
		units := time.Duration(back[0].Units)
		all := reach{back[1].After.Sub(back[0].By) * time.Duration(n) / units,
			(back[1].By.Sub(back[0].After) + time.Millisecond) * time.Duration(n) / units}
		if period := all.usual(told.Window); period > 0 {
			add(store.Limit{Algorithm: store.SlidingCounter, Count: n, Period: period})
		}
	}
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
			if e := &l.events[i]; e.Subject == l.subject && e.Outcome == endpoint.Allowed && is(e) {
				n++
			}
		}
		return n
	}
	wasDenied := false
	for i := len(l.events) - 1; i >= 0; i-- {
		e := &l.events[i]
		if e.Subject != l.subject {
			continue
		}
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

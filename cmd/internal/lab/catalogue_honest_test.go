package lab

import (
	"net/http"
	"time"
)

// honest is a service that does what it says. To add one, write its row.
type honest struct {
	name, what string
	limit      string // that commands are given
	is         func() handler
}

// right is a limiter that is right and tells of its limit.
func right(dialect, limit string) func() handler {
	return func() handler { return tells(dialect, limit, keeps(limit)) }
}

// late is a limiter that is right, and whose windows begin later than whole periods.
func late(by time.Duration, dialect, limit string) func() handler {
	return func() handler {
		h := tells(dialect, limit, keeps(limit))
		return func(q *asked, a *answered) {
			q.ahead -= by
			h(q, a)
		}
	}
}

var honestOnes = []honest{
	{"h01", "a token bucket", bucket, right(plainly, bucket)},
	{"h02", "windows", window, right(plainly, window)},
	{"h03", "a sliding log", log, right(draft8, log)},
	{"h05", "a leaky bucket that only says when to come again", "leaky-bucket:20/2s", right(nothing, "leaky-bucket:20/2s")},
	{"h06", "reads the clock before it waits for its lock", bucket, func() handler {
		h := tells(nothing, bucket, keeps(bucket))
		return func(q *asked, a *answered) {
			waits := time.Duration(q.random.IntN(3000)) * time.Microsecond
			q.pause(waits)
			q.ahead -= waits
			h(q, a)
		}
	}},
	{"h07", "INCR and EXPIRE", first, right(plainly, first)},
	{"h08", "windows that begin 1.27 s after whole periods", window, late(1270*time.Millisecond, plainly, window)},
	{"h11", "two dialects", window, right(asServer, window)},
	{"h12", "Retry-After as a date", log, func() handler { return lies(plainly, "Retry-After", dated(0))(log) }},
	{"h16", "far away", window, func() handler {
		h := usual(window)
		return func(q *asked, a *answered) {
			q.shortest, q.longest = 30*time.Millisecond, 80*time.Millisecond
			h(q, a)
		}
	}},
	{"h17", "fails one time of a hundred, and has counted half of these", bucket, func() handler {
		h := usual(bucket)
		return func(q *asked, a *answered) {
			fails, counted := q.chance(0.01), q.chance(0.5)
			if !fails || counted {
				h(q, a)
			}
			if fails {
				a.status, a.header = http.StatusInternalServerError, http.Header{}
			}
		}
	}},
	{"h19", "processes that share a store, with clocks up to 1 ms apart", window, func() handler {
		h := usual(window)
		return func(q *asked, a *answered) {
			q.ahead = time.Duration(q.random.IntN(1000)-500) * time.Microsecond
			h(q, a)
		}
	}},
	{"h20", "a clock that is 3 s ahead", window, func() handler {
		h := usualByUnix(window)
		return func(q *asked, a *answered) {
			q.ahead = 3 * time.Second
			a.header.Set("Date", q.now().UTC().Format(http.TimeFormat))
			h(q, a)
		}
	}},
	{"h22", "nginx with burst=5 nodelay", "token-bucket:10/1s,burst=6", func() handler {
		return retries(thousandths(10_000, 5))
	}},
	{"h23", "denied requests count, and it says so", log, func() handler { return retries(chargesDenied(limitOf(log), 1)) }},
	{"h26", "a clock of milliseconds", log, func() handler {
		h := usual(log)
		return func(q *asked, a *answered) {
			q.ahead = -time.Duration(time.Now().UnixNano() % 1e6)
			h(q, a)
		}
	}},
}

// usualByUnix is a limiter that is right and says so in Unix time.
func usualByUnix(limit string) handler { return tells(byUnix, limit, keeps(limit)) }

// thousandths is limit_req of nginx: a rate in thousandths of a request a second, and whole milliseconds.
func thousandths(rate, burst int64) handler {
	excess := map[string][2]int64{}
	return decides(func(q *asked) bool {
		ms := q.now().UnixMilli()
		was, known := excess[q.subject]
		now := [2]int64{0, ms}
		if known {
			now[0] = max(0, was[0]-rate*(ms-was[1])/1000+1000)
		}
		if now[0] > burst*1000 {
			return false
		}
		excess[q.subject] = now
		return true
	}, 100*time.Millisecond)
}

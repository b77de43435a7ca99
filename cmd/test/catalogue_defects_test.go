package test

import (
	"fmt"
	"net/http"
	"time"
)

// defect is a limiter that errs in one way, and what a command says of it. To add one, write its row.
type defect struct {
	what  string
	limit string // that the service says it keeps
	is    handler
	// found must not depend on luck: names of subjects, and which of two requests at one instant is first, differ in
	// each run. It is a check of `probe --limit` that fails, such as "probe connections", or words among the reasons of
	// `loadtest --limit`, such as "loadtest too many".
	found string
}

// The limits that most services say that they keep.
const (
	window = "fixed-window:20/2s"
	first  = "fixed-window:20/2s,from=first"
	log    = "sliding-log:20/2s"
	bucket = "token-bucket:20/2s"
	large  = "token-bucket:200/2s" // for what happens seldom to one that is admitted
)

// by counts by another name.
func by(name func(q *asked) string) handler { return named(name, usual(window)) }

// free lets in what it should count.
func free(is func(q *asked) bool) handler { return freely(is, usual(window)) }

// catalogue has a defect of each kind that is common in programs and their configuration. What is wrong with the
// headers alone is in the tests of probe.
func catalogue() []defect {
	const tooMany, fitted = "loadtest too many", "loadtest that fitted"
	seen := map[int]bool{}
	return []defect{
		// Who is counted with whom.
		{"each of four workers counts for itself", window,
			by(func(q *asked) string { return fmt.Sprint(q.subject, q.random.IntN(4)) }), "probe admitted"},
		{"one limit for all subjects", window, by(func(*asked) string { return "all" }), "probe subjects"},
		{"the first request on each connection is free", window, free(func(q *asked) bool {
			known := seen[q.connection]
			seen[q.connection] = true
			return !known
		}), "probe admitted"},

		// How much is let in.
		{"one too many", window, tells(window, keeps("fixed-window:21/2s")), "probe admitted"},
		{"one too few", window, tells(window, keeps("fixed-window:19/2s")), "probe admitted"},
		{"a period 5 % too long", window, tells(window, keeps("fixed-window:20/2100ms")), fitted},
		{"refills 1 % too fast", bucket, tells(bucket, keeps("token-bucket:20/1980ms")), tooMany},
		{"counts windows and says sliding", log, tells(log, keeps(window)), "probe recovery"},
		{"never counts", window, free(func(*asked) bool { return true }), "probe admitted"},
		{"limits how many are under way", window, func(q *asked, a *answered) {
			if q.under > 20 {
				a.status = http.StatusTooManyRequests
			}
		}, "probe admitted"},

		// When too much or too little is let in.
		{"each third counter never expires", first, tells(first, losesExpiry(limitOf(first), 3)), fitted},
		{"lets in everything for 30 ms after a window's end", window,
			free(func(q *asked) bool {
				return time.Duration(q.now().UnixNano())%(2*time.Second) < 30*time.Millisecond
			}), tooMany},
		{"reads from a replica that is 20 ms behind", bucket, tells(bucket, lags(limitOf(bucket), 20*time.Millisecond)),
			"probe admitted"},
		{"counts nine of ten requests", window, free(func(q *asked) bool { return q.chance(0.1) }), "probe recovery"},
		{"counts one request of fifty twice", large, tells(large, twice(keeps(large), 0.02)), fitted},
		{"the clock goes back by 700 ms each 5 s", bucket, early(func(q *asked) time.Duration {
			return -700 * time.Millisecond * time.Duration(q.now().Unix()/5%100)
		}, usual(bucket)), fitted},
		{"refills by whole units, and forgets the rest", "token-bucket:5/2s", retries(truncates(5, 2*time.Second)),
			fitted},
		{"a cache before it repeats denials for 3 s", window, repeatsDenials(3*time.Second, usual(window)),
			"probe recovery"},
		{"forgets everything each 5 s", "fixed-window:20/10s", named(func(q *asked) string {
			return fmt.Sprint(q.subject, q.now().Unix()/5)
		}, usual("fixed-window:20/10s")), tooMany},
		{"keeps a subject out for 30 s after 10 denials in a row", window, bans(10, 30*time.Second, usual(window)),
			fitted},
		{"the counter expires 1 s after the last admission", "fixed-window:20/10s,from=first",
			expiresIdle(time.Second, usual("fixed-window:20/10s,from=first")), "probe recovery"},
		{"requests of one millisecond count as one", log, tells(log, sameMillisecond(limitOf(log))), "probe admitted"},

		// How it denies.
		{"denies with 503", window, unavailable(usual(window)), "probe denial-status"},
		{"delays and never denies", "token-bucket:10/1s,burst=20", delays(100 * time.Millisecond),
			"loadtest got no decision"},
		{"denied requests count twice", log, tells(log, chargesDenied(limitOf(log), 2)), "probe recovery"},
	}
}

// honest is a service that does what it says. To add one, write its row.
type honest struct {
	what, limit string
	is          func() handler
}

var honestOnes = []honest{
	{"reads the clock before it waits for its lock", bucket, func() handler {
		return early(func(q *asked) time.Duration {
			waits := time.Duration(q.random.IntN(3000)) * time.Microsecond
			q.pause(waits)
			return -waits
		}, retries(keeps(bucket)))
	}},
	{"asked by several at once", "fixed-window:100/1m", func() handler { return usual("fixed-window:100/1m") }},
	{"a log asked by several at once", "sliding-log:50/1h", func() handler { return usual("sliding-log:50/1h") }},
	{"INCR and EXPIRE", first, func() handler { return usual(first) }},
	{"windows that begin 1.27 s after whole periods", window, func() handler {
		return early(func(*asked) time.Duration { return -1270 * time.Millisecond }, usual(window))
	}},
	{"far away", window, func() handler {
		h := usual(window)
		return func(q *asked, a *answered) {
			q.shortest, q.longest = 30*time.Millisecond, 80*time.Millisecond
			h(q, a)
		}
	}},
	{"fails one time of a hundred, and has counted half of these", bucket, func() handler {
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
	{"processes that share a store, with clocks up to 1 ms apart", window, func() handler {
		return early(func(q *asked) time.Duration { return time.Duration(q.random.IntN(1000)-500) * time.Microsecond },
			usual(window))
	}},
	{"nginx with burst=5 nodelay", "token-bucket:10/1s,burst=6", func() handler {
		return retries(thousandths(10_000, 5))
	}},
	{"denied requests count, and it says so", log, func() handler { return retries(chargesDenied(limitOf(log), 1)) }},
	{"a clock of milliseconds", log, func() handler {
		return early(func(*asked) time.Duration { return -time.Duration(time.Now().UnixNano() % 1e6) }, usual(log))
	}},
}

package lab

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// defect is something that is wrong with a service. To add one, write its row.
type defect struct {
	name string
	what string // is wrong
	// limit is the limit that the service says it keeps, and is what it does instead.
	limit string
	is    func(limit string) handler
	// found must not depend on luck: names of subjects, and which of two requests at one instant is first, differ in each run.
	// It is a check of `probe --limit` that fails, such as "probe connections", or words among the reasons of
	// `loadtest --limit`, such as "loadtest too many". Words after a colon are among those of the check.
	found string
	// flag is what the finder is given beside its defaults; the report without it names this flag.
	flag string
}

// family are defects of one kind.
type family struct {
	name    string
	defects []defect
}

// The limits that most services say that they keep.
const (
	window = "fixed-window:20/2s"
	first  = "fixed-window:20/2s,from=first"
	log    = "sliding-log:20/2s"
	bucket = "token-bucket:20/2s"
	large  = "token-bucket:200/2s" // for what happens seldom to one that is admitted
)

// keepsOther tells of one limit and keeps another.
func keepsOther(kept string) func(string) handler {
	return func(limit string) handler { return tells(plainly, limit, keeps(kept)) }
}

// silent is a limiter that says nothing but when to come again.
func silent(h func() handler) func(string) handler {
	return func(string) handler { return retries(h()) }
}

// around is a defect around a limiter that is right, and within what it says.
func around(defect func(h handler) handler) func(string) handler {
	return func(limit string) handler { return tells(plainly, limit, defect(keeps(limit))) }
}

// outside is a defect around all of a service.
func outside(defect func(h handler) handler) func(string) handler {
	return func(limit string) handler { return defect(usual(limit)) }
}

// lies changes a field of what a service says in a dialect.
func lies(dialect, field string, value func(q *asked, a *answered, was string) string) func(string) handler {
	return func(limit string) handler { return sets(field, value, tells(dialect, limit, keeps(limit))) }
}

// by counts by another name.
func by(name func(q *asked) string) func(string) handler {
	return outside(func(h handler) handler { return named(name, h) })
}

// free lets in what it should count.
func free(is func(q *asked) bool) func(string) handler {
	return outside(func(h handler) handler { return freely(is, h) })
}

// always is one text for all answers.
func always(text string) func(*asked, *answered, string) string {
	return func(*asked, *answered, string) string { return text }
}

// more adds to a number.
func more(n int64) func(*asked, *answered, string) string {
	return func(_ *asked, _ *answered, was string) string {
		old, _ := strconv.ParseInt(was, 10, 64)
		return fmt.Sprint(old + n)
	}
}

// dated is Retry-After as a date that is wrong by so much.
func dated(wrong time.Duration) func(*asked, *answered, string) string {
	return func(q *asked, a *answered, _ string) string {
		a.header.Set("Date", q.now().UTC().Format(http.TimeFormat))
		return q.now().Add(a.RetryAfter + time.Second - 1 + wrong).UTC().Format(http.TimeFormat)
	}
}

// within reports whether an instant is in the first part of each period.
func within(q *asked, part, period time.Duration) bool {
	return time.Duration(q.now().UnixNano())%period < part
}

// catalogue has a defect of each kind that is common in programs and their
// configuration.
var catalogue = []family{
	{"who is counted with whom", []defect{
		{"03", "each worker counts for itself, and requests go to any of them", window,
			by(func(q *asked) string { return fmt.Sprint(q.subject, q.random.IntN(4)) }), "probe admitted", ""},
		{"18", "keeps subjects by a hash of 8 values", log,
			by(func(q *asked) string { return fmt.Sprint(hashOf(q.subject) % 8) }), "loadtest that fitted", "--keys 12"},
		{"46", "one limit for all subjects", window, by(func(*asked) string { return "all" }), "probe subjects", ""},
		{"n01", "the first request on each connection is free", window, outside(func(h handler) handler {
			seen := map[int]bool{}
			return freely(func(q *asked) bool {
				known := seen[q.connection]
				seen[q.connection] = true
				return !known
			}, h)
		}), "probe admitted", ""},
	}},
	{"how much is let in", []defect{
		{"35", "one too many", window, keepsOther("fixed-window:21/2s"), "probe admitted", ""},
		{"36", "one too few", window, keepsOther("fixed-window:19/2s"), "probe admitted", ""},
		{"39", "the period is 5 % too long", window, keepsOther("fixed-window:20/2100ms"), "loadtest that fitted", ""},
		{"58", "refills 1 % too fast", bucket, keepsOther("token-bucket:20/1980ms"), "loadtest too many", ""},
		{"06", "counts windows and says sliding", log, keepsOther(window), "probe recovery", ""},
		{"60", "never counts", window, free(func(*asked) bool { return true }), "probe admitted", ""},
		{"38", "limits how many are under way, and not how many there are", window,
			func(string) handler {
				return func(q *asked, a *answered) {
					if q.under > 20 {
						a.status = http.StatusTooManyRequests
					}
				}
			}, "probe admitted", ""},
	}},
	{"when too much or too little is let in", []defect{
		{"05", "each third counter never expires", first, around(func(handler) handler { return losesExpiry(limitOf(first), 3) }),
			"loadtest that fitted", ""},
		{"08", "lets in everything for 30 ms after a window's end", window,
			free(func(q *asked) bool { return within(q, 30*time.Millisecond, 2*time.Second) }), "loadtest too many", ""},
		{"27", "reads from a replica that is 20 ms behind", bucket, outside(lags(20 * time.Millisecond)), "probe admitted", ""},
		{"29", "counts nine of ten requests", window, free(func(q *asked) bool { return q.chance(0.1) }), "probe admitted", ""},
		{"50", "counts one request of fifty twice", large, around(func(h handler) handler {
			return func(q *asked, a *answered) {
				if h(q, a); q.chance(0.02) {
					h(q, &answered{})
				}
			}
		}), "loadtest that fitted", ""},
		{"24", "the clock goes back by 700 ms each 5 s", bucket, outside(func(h handler) handler {
			return func(q *asked, a *answered) {
				q.ahead -= 700 * time.Millisecond * time.Duration(q.now().Unix()/5%100)
				h(q, a)
			}
		}), "loadtest that fitted", ""},
		{"42", "refills by whole units, and forgets the rest", "token-bucket:5/2s",
			silent(func() handler { return truncates(5, 2*time.Second) }),
			"loadtest that fitted", ""},
		{"49", "a cache before it repeats denials for 3 s", window, outside(repeatsDenials(3 * time.Second)), "probe recovery", ""},
		{"30", "forgets everything each 5 s", "fixed-window:20/10s", outside(func(h handler) handler {
			return named(func(q *asked) string { return fmt.Sprint(q.subject, q.now().Unix()/5) }, h)
		}), "loadtest too many", ""},
		{"31", "keeps a subject out for 30 s after 10 denials in a row", window, outside(bans(10, 30*time.Second)),
			"loadtest that fitted", ""},
		{"n04", "an idle subject saves up more than the burst", bucket, around(func(handler) handler {
			return holds(func(idle time.Duration) float64 { return 20 + min(20, idle.Seconds()*10) })
		}), "probe recovery", ""},
		{"n06", "the counter expires 1 s after the last admission", "fixed-window:20/10s,from=first", outside(expiresIdle(time.Second)),
			"probe recovery", ""},
		{"n17", "requests of the same millisecond count as one (the member of a sorted set is the time)", log,
			around(func(handler) handler { return sameMillisecond(limitOf(log)) }), "probe admitted", ""},
	}},
	{"how it denies", []defect{
		{"32", "denies with 503", window, outside(denies(http.StatusServiceUnavailable)), "probe denial-status", ""},
		{"01", "delays and never denies", "token-bucket:10/1s,burst=20", outside(delays(100 * time.Millisecond)),
			"loadtest got no decision", ""},
		{"23", "denied requests count twice", log, around(func(handler) handler { return chargesDenied(limitOf(log), 2) }),
			"probe recovery", ""},
	}},
	{"what it says", []defect{
		{"10", "Retry-After in milliseconds", window, lies(plainly, "Retry-After", func(_ *asked, a *answered, _ string) string {
			return fmt.Sprint(a.RetryAfter.Milliseconds() + 1)
		}), "probe retry-after", ""},
		{"11", "Retry-After is a date an hour late", window, lies(plainly, "Retry-After", dated(time.Hour)), "probe retry-after", ""},
		{"12", "Retry-After is 0", window, lies(plainly, "Retry-After", always("0")), "probe retry-after", ""},
		{"55", "no Retry-After", window, lies(plainly, "Retry-After", nil), "probe retry-after", ""},
		{"13", "one more remains than is true", window, lies(plainly, "X-RateLimit-Remaining", more(1)), "probe headers", ""},
		{"15", "a reset in milliseconds since 1970", window,
			lies(byUnix, "X-RateLimit-Reset", func(q *asked, _ *answered, _ string) string {
				return fmt.Sprint(q.now().UnixMilli() + 1500)
			}), "probe headers", ""},
		{"16", "says what is true of another limit", window, func(limit string) handler {
			other := tells(plainly, "fixed-window:100/1m", keeps("fixed-window:100/1m"))
			return saying(func(q *asked, a *answered) {
				o := &answered{header: http.Header{}}
				other(q, o)
				for _, field := range []string{"X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset"} {
					a.header[field] = o.header[field]
				}
			}, usual(limit))
		}, "probe headers", ""},
		{"53", "a field of draft 8 that cannot be read", window, lies(draft8, "RateLimit", func(_ *asked, _ *answered, was string) string {
			return strings.ReplaceAll(was, ";", ",")
		}), "probe headers", ""},
		{"54", "two dialects contradict each other", window, lies(asServer, "X-RateLimit-Remaining", more(3)), "probe headers", ""},
	}},
}

// hashOf is a hash of a name.
func hashOf(name string) (h uint32) {
	for _, c := range []byte(name) {
		h = h*31 + uint32(c)
	}
	return h
}

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

// catalogue are the defects of a review, under numbers, and thirty more, which are common in programs and their
// configuration.
var catalogue = []family{
	{"who is counted with whom", []defect{
		{"03", "each worker counts for itself, and requests go to any of them", window,
			by(func(q *asked) string { return fmt.Sprint(q.subject, q.random.IntN(4)) }), "probe admitted", ""},
		{"04", "each worker has a part of the limit, and requests go to any of them", window,
			around(func(handler) handler {
				return named(func(q *asked) string { return fmt.Sprint(q.subject, q.random.IntN(4)) }, keeps("fixed-window:5/2s"))
			}), "probe admitted", ""},
		{"18", "keeps subjects by a hash of 8 values", log,
			by(func(q *asked) string { return fmt.Sprint(hashOf(q.subject) % 8) }), "loadtest that fitted", "--keys 12"},
		{"46", "one limit for all subjects", window, by(func(*asked) string { return "all" }), "probe subjects", ""},
		{"48", "remembers the last 5 subjects", "fixed-window:20/10s", outside(remembersLast(5)), "loadtest too many", "--keys 12"},
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
		{"45", "says 20 and allows 25", window, keepsOther("fixed-window:25/2s"), "probe admitted", ""},
		{"57", "holds 20.95 units", bucket, around(func(handler) handler {
			return holds(func(time.Duration) float64 { return 20.95 })
		}), "loadtest too many", ""},
		{"59", "twice the burst", bucket, keepsOther("token-bucket:20/2s,burst=40"), "probe admitted", ""},
		{"39", "the period is 5 % too long", window, keepsOther("fixed-window:20/2100ms"), "loadtest that fitted", ""},
		{"40", "the period is 5 % too short", window, keepsOther("fixed-window:20/1900ms"), "loadtest too many", ""},
		{"58", "refills 1 % too fast", bucket, keepsOther("token-bucket:20/1980ms"), "loadtest too many", ""},
		{"06", "counts windows and says sliding", log, keepsOther(window), "probe recovery", ""},
		{"07", "counts windows and says bucket", bucket, keepsOther(window), "probe recovery", ""},
		{"60", "never counts", window, free(func(*asked) bool { return true }), "probe admitted", ""},
		{"38", "limits how many are under way, and not how many there are", window,
			func(string) handler {
				return func(q *asked, a *answered) {
					if q.under > 20 {
						a.status = http.StatusTooManyRequests
					}
				}
			}, "probe admitted", ""},
		{"n02", "the first request of a window is not counted (SET 0 instead of INCR)", first,
			keepsOther("fixed-window:21/2s,from=first"), "probe admitted", ""},
		{"n03", "a new subject begins with half a bucket", bucket, around(func(h handler) handler {
			known := map[string]bool{}
			return func(q *asked, a *answered) {
				if !known[q.subject] {
					known[q.subject] = true
					q.cost = 11
				}
				h(q, a)
			}
		}), "probe admitted", ""},
	}},
	{"when too much or too little is let in", []defect{
		{"05", "each third counter never expires", first, around(func(handler) handler { return losesExpiry(limitOf(first), 3) }),
			"loadtest that fitted", ""},
		{"08", "lets in everything for 30 ms after a window's end", window,
			free(func(q *asked) bool { return within(q, 30*time.Millisecond, 2*time.Second) }), "loadtest too many", ""},
		{"25", "does not limit a subject in its first 50 ms", window, outside(startsLate(50 * time.Millisecond)), "probe admitted", ""},
		{"27", "reads from a replica that is 20 ms behind", bucket, outside(lags(20 * time.Millisecond)), "probe admitted", ""},
		{"52", "writes what it counted each 20 ms", bucket, outside(batches(20 * time.Millisecond)), "probe admitted", ""},
		{"28", "a cache before it answers one of ten", window, outside(func(h handler) handler {
			return func(q *asked, a *answered) {
				if !q.chance(0.1) {
					h(q, a)
					return
				}
				a.header.Set("Age", "3")
				a.header.Set("X-Cache", "HIT")
			}
		}), "probe admitted", ""},
		{"29", "counts nine of ten requests", window, free(func(q *asked) bool { return q.chance(0.1) }), "probe admitted", ""},
		{"37", "one request of fifty goes to an empty store", window,
			by(func(q *asked) string { return q.subject + map[bool]string{true: "!"}[q.chance(0.02)] }), "loadtest too many", ""},
		{"61", "forgets a subject at one request of a hundred", window,
			outside(func(h handler) handler { return forgets(func(q *asked) bool { return q.chance(0.01) }) }), "loadtest too many", ""},
		{"63", "lets in one denial of ten", window, outside(func(h handler) handler {
			return saying(func(q *asked, a *answered) {
				if a.status == http.StatusTooManyRequests && q.chance(0.1) {
					a.status = http.StatusOK
					a.header.Del("Retry-After")
				}
			}, h)
		}), "loadtest too many", ""},
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
		{"34", "begins windows anew at each full minute", "fixed-window:20/7s", silent(func() handler {
			return windows(func(q *asked) string { return fmt.Sprint(q.now().Unix()/60, " ", q.now().Unix()%60/7) }, 20)
		}), "loadtest too many", "--duration 70s"},
		{"41", "weighs the window before the wrong way", "sliding-counter:20/2s",
			silent(func() handler { return weighsWrongly(20, 2*time.Second) }), "loadtest too many", ""},
		{"42", "refills by whole units, and forgets the rest", "token-bucket:5/2s",
			silent(func() handler { return truncates(5, 2*time.Second) }),
			"loadtest that fitted", ""},
		{"49", "a cache before it repeats denials for 3 s", window, outside(repeatsDenials(3 * time.Second)), "probe recovery", ""},
		{"09", "two backends whose clocks are 300 ms apart", window, silent(func() handler {
			return windows(func(q *asked) string {
				return fmt.Sprint(q.now().Add(time.Duration(q.random.IntN(2))*300*time.Millisecond).UnixNano() / 2e9)
			}, 20)
		}), "loadtest that fitted", ""},
		{"30", "forgets everything each 5 s", "fixed-window:20/10s", outside(func(h handler) handler {
			return named(func(q *asked) string { return fmt.Sprint(q.subject, q.now().Unix()/5) }, h)
		}), "loadtest too many", ""},
		{"31", "keeps a subject out for 30 s after 10 denials in a row", window, outside(bans(10, 30*time.Second)),
			"loadtest that fitted", ""},
		{"n04", "an idle subject saves up more than the burst", bucket, around(func(handler) handler {
			return holds(func(idle time.Duration) float64 { return 20 + min(20, idle.Seconds()*10) })
		}), "probe recovery", ""},
		{"n05", "off for 100 ms each 5 s, while the configuration is read anew", bucket,
			free(func(q *asked) bool { return within(q, 100*time.Millisecond, 5*time.Second) }), "loadtest too many", ""},
		{"n06", "the counter expires 1 s after the last admission", "fixed-window:20/10s,from=first", outside(expiresIdle(time.Second)),
			"probe recovery", ""},
		{"n09", "a second limit of 60 in a minute that nobody mentions", window, around(func(h handler) handler {
			second := keeps("fixed-window:60/1m")
			return func(q *asked, a *answered) {
				if h(q, a); a.Allowed {
					second(q, a)
				}
			}
		}), "loadtest that fitted", ""},
		{"n10", "the counter has 8 bits and counts denied requests", first,
			around(func(handler) handler { return overflows(limitOf(first)) }),
			"loadtest too many", ""},
		{"n11", "rounds the period of 1.5 s down to whole seconds", "fixed-window:20/1500ms", keepsOther("fixed-window:20/1s"),
			"probe retry-after", ""},
		{"n12", "the clock runs 2 % too fast", bucket, outside(func(h handler) handler {
			return func(q *asked, a *answered) {
				q.ahead += time.Duration(q.now().UnixNano()%int64(time.Hour)) / 50
				h(q, a)
			}
		}), "loadtest too many", ""},
		{"n13", "a proxy asks again for one request of twenty", large, outside(func(h handler) handler {
			return func(q *asked, a *answered) {
				if q.chance(0.05) {
					h(q, &answered{header: http.Header{}})
				}
				h(q, a)
			}
		}), "loadtest that fitted", ""},
		{"n14", "counts a request when its answer is sent, 20 ms later", window, outside(countsLater(20 * time.Millisecond)),
			"loadtest too many", ""},
		{"n15", "lets in everything for 50 ms each 3 s, while its store is slow", log,
			free(func(q *asked) bool { return within(q, 50*time.Millisecond, 3*time.Second) }), "loadtest too many", ""},
		{"n17", "requests of the same millisecond count as one (the member of a sorted set is the time)", log,
			around(func(handler) handler { return sameMillisecond(limitOf(log)) }), "probe admitted", ""},
		{"n20", "all units of a sliding log come back at once", log, keepsOther(first), "probe recovery", ""},
		{"n21", "a leaky bucket that leaks per second and says a window", window, keepsOther("token-bucket:10/1s,burst=20"),
			"probe recovery", ""},
	}},
	{"how it denies", []defect{
		{"32", "denies with 503", window, outside(denies(http.StatusServiceUnavailable)), "probe denial-status", ""},
		{"33", "denies with 200 and an error in the body", window, outside(denies(http.StatusOK)), "probe admitted", ""},
		{"01", "delays and never denies", "token-bucket:10/1s,burst=20", outside(delays(100 * time.Millisecond)),
			"loadtest got no decision", ""},
		{"64", "answers a denial after 3 s", window, outside(func(h handler) handler {
			return saying(func(_ *asked, a *answered) {
				if a.status == http.StatusTooManyRequests {
					a.late = 3 * time.Second
				}
			}, h)
		}), "loadtest got no decision", ""},
		{"23", "denied requests count twice", log, around(func(handler) handler { return chargesDenied(limitOf(log), 2) }),
			"probe recovery", ""},
		{"n07", "denies the second time with 403", window, outside(func(h handler) handler {
			denied := map[string]bool{}
			return saying(func(q *asked, a *answered) {
				if a.status == http.StatusTooManyRequests {
					if denied[q.subject] {
						a.status = http.StatusForbidden
					}
					denied[q.subject] = true
				}
			}, h)
		}), "probe denial-status", ""},
		{"n08", "denies with a redirect to a page", window, outside(denies(http.StatusFound)), "probe denial-status", ""},
	}},
	{"what it says", []defect{
		{"10", "Retry-After in milliseconds", window, lies(plainly, "Retry-After", func(_ *asked, a *answered, _ string) string {
			return fmt.Sprint(a.RetryAfter.Milliseconds() + 1)
		}), "probe retry-after", ""},
		{"11", "Retry-After is a date an hour late", window, lies(plainly, "Retry-After", dated(time.Hour)), "probe retry-after", ""},
		{"56", "Retry-After is a date an hour early", window, lies(plainly, "Retry-After", dated(-time.Hour)), "probe retry-after", ""},
		{"12", "Retry-After is 0", window, lies(plainly, "Retry-After", always("0")), "probe retry-after", ""},
		{"43", "Retry-After is always 60", window, lies(plainly, "Retry-After", always("60")), "probe retry-after", ""},
		{"44", "Retry-After with a fraction", window, lies(plainly, "Retry-After", func(_ *asked, a *answered, _ string) string {
			return fmt.Sprintf("%.1f", a.RetryAfter.Seconds()+0.05)
		}), "probe retry-after", ""},
		{"55", "no Retry-After", window, lies(plainly, "Retry-After", nil), "probe retry-after", ""},
		{"13", "one more remains than is true", window, lies(plainly, "X-RateLimit-Remaining", more(1)), "probe headers", ""},
		{"14", "one less remains than is true", window, lies(plainly, "X-RateLimit-Remaining", more(-1)), "probe headers", ""},
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
		{"n22", "Retry-After is rounded down", window, lies(plainly, "Retry-After", func(_ *asked, a *answered, _ string) string {
			return fmt.Sprint(int64(a.RetryAfter / time.Second))
		}), "probe retry-after", ""},
		{"n23", "Retry-After is always the period", "fixed-window:20/5s", lies(plainly, "Retry-After", always("5")),
			"probe retry-after", ""},
		{"n24", "Retry-After is a date in the time zone UTC, which is no HTTP date", window,
			lies(plainly, "Retry-After", func(q *asked, a *answered, _ string) string {
				return q.now().Add(a.RetryAfter + time.Second).UTC().Format(time.RFC1123)
			}), "probe retry-after", ""},
		{"n25", "Retry-After is on the first denial only", window, outside(func(h handler) handler {
			denied := map[string]bool{}
			return saying(func(q *asked, a *answered) {
				if denied[q.subject] {
					a.header.Del("Retry-After")
				}
				denied[q.subject] = denied[q.subject] || a.status == http.StatusTooManyRequests
			}, h)
		}), "probe retry-after", ""},
		{"n26", "what remains is always the limit", window, lies(plainly, "X-RateLimit-Remaining", always("20")), "probe headers", ""},
		{"n27", "what remains falls below 0", window,
			lies(plainly, "X-RateLimit-Remaining", func(_ *asked, a *answered, was string) string {
				if !a.Allowed {
					return "-1"
				}
				return was
			}), "probe headers", ""},
		{"n28", "a reset of another time zone", window, lies(byUnix, "X-RateLimit-Reset", more(3600)), "probe headers", ""},
		{"n29", "the policy says a minute", window, lies(draft8, "RateLimit-Policy", always(`"default";q=20;w=60`)), "probe headers", ""},
	}},
}

// hashOf is a hash of a name.
func hashOf(name string) (h uint32) {
	for _, c := range []byte(name) {
		h = h*31 + uint32(c)
	}
	return h
}

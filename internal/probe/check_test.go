package probe

import (
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/probe/headers"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

var testLimits = []string{
	"token-bucket:10/1m", "token-bucket:5/10s,burst=20", "token-bucket:100/1s", "leaky-bucket:10/20s",
	"leaky-bucket:3/1s,burst=8",
	"fixed-window:10/1m", "fixed-window:7/2s", "fixed-window:10/1m,from=first", "fixed-window:5/10s,from=first",
	"sliding-log:10/1m", "sliding-log:4/1s", "sliding-counter:10/10s", "sliding-counter:20/1m,slices=6",
	"fixed-window:3/1500ms,from=first",
}

var testDialects = []string{
	headers.DialectDraft8, headers.DialectDraft7, headers.DialectDraft6, "express-6", headers.DialectX, "x-unix",
	"envoy", "laravel", "limitctl", "date", "none",
}

// What keeps its limit and tells the truth fails no check, whichever of two meanings a reset has, and if clocks differ.
func TestHonestServicesFailNoCheck(t *testing.T) {
	n := uint64(0)
	clocks := []time.Duration{0, 3e8, -3e8, 14e8, -14e8, 24e8, -24e8}
	for _, limit := range testLimits {
		for _, dialect := range append(testDialects, testDialects...) {
			n++
			if testing.Short() && n%5 != 0 {
				continue // each limit and each dialect still has its turns
			}
			s, _ := newServed(t, limit, dialect, n)
			s.ahead, s.unlike = clocks[n%uint64(len(clocks))], n/uint64(len(testDialects))%2 == 1
			t.Run(limit+" "+dialect, func(t *testing.T) {
				t.Parallel()
				r := hold(t, s, limit)
				for _, c := range r.Checks {
					mayBeUnknown := c.Name == checkHeaders && (dialect == "none" || dialect == "date") ||
						c.Name == checkRetryAfter && dialect == "none"
					if c.Name == checkRetryAfter && dialect == "none" {
						continue // it is missing, and that is told
					}
					if c.Verdict == Fail || c.Verdict == Unknown && !mayBeUnknown && !c.Moot {
						t.Errorf("%s %s: expected %s, seen %s", c.Verdict, c.Name, c.Expected, c.Seen)
					}
				}
			})
		}
	}
}

// Each lie is caught by the check that it is the business of, in words that name it.
func TestLiesAreCaught(t *testing.T) {
	t.Parallel()
	set := func(name string, value func(d *store.Decision, now time.Time) int64) func(
		http.Header, *store.Decision, time.Time) {
		return func(h http.Header, d *store.Decision, now time.Time) {
			if h.Get(name) != "" {
				h.Set(name, strconv.FormatInt(value(d, now), 10))
			}
		}
	}
	retry := func(value func(d *store.Decision) int64) func(http.Header, *store.Decision, time.Time) {
		return set("Retry-After", func(d *store.Decision, _ time.Time) int64 { return value(d) })
	}
	for _, test := range []struct {
		what, limit, dialect string
		spoil                func(s *server, o *ours)
		held                 string // if it is not limit
		check, words         string
	}{
		{"429 without Retry-After", "fixed-window:10/10s", headers.DialectDraft8, func(s *server, _ *ours) {
			s.lie = func(h http.Header, _ *store.Decision, _ time.Time) { h.Del("Retry-After") }
		}, "", checkRetryAfter, "missing on"},
		{"Retry-After one second early", "token-bucket:1/5s", headers.DialectDraft8, func(s *server, _ *ours) {
			s.lie = retry(func(d *store.Decision) int64 { return ceil(d.RetryAfter) - 1 })
		}, "", checkRetryAfter, "later was denied"},
		{"Retry-After two seconds late", "fixed-window:10/10s", headers.DialectDraft8, func(s *server, _ *ours) {
			s.lie = retry(func(d *store.Decision) int64 { return ceil(d.RetryAfter) + 2 })
		}, "", checkRetryAfter, "was admitted already"},
		{"Retry-After in milliseconds", "fixed-window:10/10s", headers.DialectX, func(s *server, _ *ours) {
			s.lie = retry(func(d *store.Decision) int64 { return d.RetryAfter.Milliseconds() })
		}, "", checkRetryAfter, "was admitted already"},
		{"Retry-After with a fraction", "fixed-window:10/10s", headers.DialectX, func(s *server, _ *ours) {
			s.lie = func(h http.Header, d *store.Decision, _ time.Time) {
				if !d.Allowed {
					h.Set("Retry-After", "1.5")
				}
			}
		}, "", checkRetryAfter, `"1.5" is neither a whole number of seconds nor a date`},
		{"remaining never falls", "fixed-window:10/10s", headers.DialectX, func(s *server, _ *ours) {
			s.lie = set("X-RateLimit-Remaining", func(d *store.Decision, _ time.Time) int64 { return 10 })
		}, "", checkHeaders, "is 10, and from 4 to 9 can be left"},
		{"remaining is one too many", "sliding-log:10/10s", headers.DialectX, func(s *server, _ *ours) {
			s.lie = set("X-RateLimit-Remaining", func(d *store.Decision, _ time.Time) int64 { return d.Remaining + 1 })
		}, "", checkHeaders, "is 10, and from 4 to 9 can be left"},
		{"a reset that is long past", "fixed-window:10/10s", "x-unix", func(s *server, _ *ours) {
			s.lie = set("X-RateLimit-Reset", func(_ *store.Decision, now time.Time) int64 { return now.Unix() - 15 })
		}, "", checkHeaders, "X-RateLimit-Reset says -15"},
		{"a date that is long past", "fixed-window:10/10s", "date", func(s *server, _ *ours) {
			s.lie = func(h http.Header, d *store.Decision, now time.Time) {
				if !d.Allowed {
					h.Set("Retry-After", now.Add(d.RetryAfter-6*time.Second).UTC().Format(http.TimeFormat))
				}
			}
		}, "", checkRetryAfter, "later was denied, also if the clocks differ by 3s"},
		{"a wrong limit in the header", "fixed-window:10/10s", headers.DialectDraft8, func(s *server, _ *ours) {
			s.lie = func(h http.Header, _ *store.Decision, _ time.Time) {
				h.Set("RateLimit-Policy", `"default";q=20;w=10`)
			}
		}, "", checkHeaders, " 20 in 10s, and the limit is fixed-window:10/10s"},
		{"503", "fixed-window:10/10s", headers.DialectX, func(s *server, _ *ours) { s.status = 503 }, "",
			checkDenialStatus,
			"; if that is meant, give --denied-status 503"},
		{"subjects share", "fixed-window:10/10s", headers.DialectX, func(_ *server, o *ours) { o.shared = true }, "",
			checkSubjects,
			"they share it"},
		{"a window twice as long", "fixed-window:10/20s,from=first", "none", nil, "fixed-window:10/10s,from=first",
			checkRecovery,
			"too late"},
		{"a window half as long", "fixed-window:10/5s,from=first", "none", nil, "fixed-window:10/10s,from=first",
			checkRecovery,
			"too early"},
		{"bursts at the boundary", "fixed-window:10/10s", "none", nil, "sliding-log:10/10s", checkAdmitted, "too many"},
		{"two dialects contradict", "fixed-window:10/10s", "limitctl", func(s *server, _ *ours) {
			s.lie = set("X-RateLimit-Remaining", func(d *store.Decision, _ time.Time) int64 {
				return max(0, d.Remaining-1)
			})
		}, "", checkHeaders, "contradict each other"},
	} {
		t.Run(test.what, func(t *testing.T) {
			s, o := newServed(t, test.limit, test.dialect, 3)
			if test.spoil != nil {
				test.spoil(s, o)
			}
			held := test.held
			if held == "" {
				held = test.limit
			}
			r := hold(t, s, held)
			c := r.check(test.check)
			if c.Verdict != Fail || !strings.Contains(c.Seen, test.words) {
				for _, c := range r.Checks {
					t.Logf("%s %s: expected %s, seen %s", c.Verdict, c.Name, c.Expected, c.Seen)
				}
				t.Errorf("%s %s: seen %q, without %q", c.Verdict, c.Name, c.Seen, test.words)
			}
		})
	}
}

// Waits that are longer by chance, so that clients come back apart, are no failure. Those that are too long in one way
// are, and so is one that is too short.
func TestWaitsMayBeSpread(t *testing.T) {
	for _, test := range []struct {
		name string
		more func(random *rand.Rand) int64 // seconds
		want Verdict
	}{
		{"spread", func(random *rand.Rand) int64 { return random.Int64N(5) }, Pass},
		{"always late", func(*rand.Rand) int64 { return 3 }, Fail},
		{"early by chance", func(random *rand.Rand) int64 { return random.Int64N(7) - 2 }, Fail},
	} {
		s, _ := newServed(t, "fixed-window:10/20s,from=first", headers.DialectDraft8, 4)
		random := rand.New(rand.NewPCG(3, 3))
		s.lie = func(h http.Header, d *store.Decision, _ time.Time) {
			if h.Get("Retry-After") != "" {
				h.Set("Retry-After", strconv.FormatInt(max(0, ceil(d.RetryAfter)+test.more(random)), 10))
			}
		}
		for _, c := range hold(t, s, "fixed-window:10/20s,from=first").Checks {
			if c.Name == checkRetryAfter &&
				(c.Verdict != test.want || test.want == Pass && !strings.Contains(c.Seen, "come back apart")) {
				t.Errorf("%s: %s: %s", test.name, c.Verdict, c.Seen)
			}
		}
	}
}

package probe

import (
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/probe/headers"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// given runs a probe of a server with a limit that the user gives.
func given(t *testing.T, s *server, limit string, config Config) *Result {
	t.Helper()
	config.Limit = parse(t, limit)
	return run(t, s, config)
}

// What was not seen is no pass, and a slow endpoint is asked with several requests at once.
func TestVerdictNeedsEvidence(t *testing.T) {
	slow := func(limit string) *server {
		s := simulated(newOurs(t, limit))
		s.shortest, s.longest = 150*time.Millisecond, 151*time.Millisecond
		return s
	}
	const none = "token-bucket:1000000000/1s"
	usual := Config{Quota: 3000, MaxTime: 10 * time.Minute, Workers: 16}
	for _, test := range []struct {
		what   string
		server *server
		limit  string
		config Config
		want   Verdict
		sent   bool
	}{
		{"more than all requests", simulated(newOurs(t, none)), "5000/1m", usual, Unknown, false},
		{"as many as all requests", simulated(newOurs(t, none)), "fixed-window:20/2s", Config{Quota: 20, Workers: 16},
			Unknown, false},
		{"one request more", simulated(newOurs(t, none)), "fixed-window:20/2s", Config{Quota: 21, Workers: 16}, Unknown,
			true},
		{"two windows and one more", simulated(newOurs(t, none)), "fixed-window:20/2s", Config{Quota: 41, Workers: 16},
			Fail, true},
		{"a slow one without a limit", slow(none), "fixed-window:20/2s", usual, Fail, true},
		{"a slow one with a limit", slow("fixed-window:20/2s"), "fixed-window:20/2s", usual, Pass, true},
		{"too slow to reach it", slow(none), "fixed-window:2000/1s",
			Config{Quota: 3000, MaxTime: time.Minute, Workers: 2}, Unknown, true},
	} {
		r := given(t, test.server, test.limit, test.config)
		if got, _ := r.Overall(); got != test.want || (len(r.Events) > 0) != test.sent ||
			len(r.Events) > test.config.Quota {
			t.Errorf("%s: %s after %d requests, checks %+v", test.what, got, len(r.Events), r.Checks)
		}
	}
}

// Where nothing was seen of the period, neither by a wait nor in words, there is no verdict.
func TestVerdictNeedsThePeriod(t *testing.T) {
	for dialect, want := range map[string]Verdict{"none": Unknown, headers.DialectX: Pass} {
		s, _ := newServed(t, "sliding-log:5/1h", dialect, 1)
		s.status = 503
		r := run(t, s, Config{Limit: s.limit, Quota: 2000, MaxTime: time.Minute, DeniedStatus: 503})
		if got, _ := r.Overall(); got != want {
			t.Errorf("%s: %s, %+v", dialect, got, r.Checks)
		}
	}
}

// Fields of nobody knows which limit are not called true.
func TestFieldsOfNoLimitAreNotHeld(t *testing.T) {
	for dialect, want := range map[string]struct {
		without, seen string
		verdict       Verdict
	}{
		headers.DialectX:      {"X-RateLimit-Limit", "x-ratelimit on ", Unknown},
		headers.DialectDraft8: {"RateLimit-Policy", "draft-8 on ", Unknown},
		"limitctl":            {"X-RateLimit-Limit", "draft-8 on ", Pass},
	} {
		s, _ := newServed(t, "sliding-log:5/1s", dialect, 1)
		s.lie = func(h http.Header, _ *store.Decision, _ time.Time) { h.Del(want.without) }
		if c := hold(t, s, "sliding-log:5/1s").check(checkHeaders); c.Verdict != want.verdict ||
			!strings.HasPrefix(c.Seen, want.seen) {
			t.Errorf("%s without %s: %s, %s", dialect, want.without, c.Verdict, c.Seen)
		}
	}
}

// When windows begin is not known, so nothing is called wrong that is right for one of the phases that explain all
// answers.
func TestAGuessedPhaseAccusesNobody(t *testing.T) {
	phases := uint64(24)
	if testing.Short() {
		phases = 6
	}
	for _, limit := range []string{"fixed-window:20/2s", "fixed-window:10/10s", "sliding-counter:20/2s"} {
		t.Run(limit, func(t *testing.T) {
			t.Parallel()
			for seed := range phases {
				s, o := newServed(t, limit, headers.DialectX, seed)
				o.phase = time.Duration(37+211*seed) * time.Millisecond % s.limit.Period
				for _, c := range hold(t, s, limit).Checks {
					if c.Verdict == Fail || c.Name == checkAdmitted && c.Verdict != Pass {
						t.Errorf("windows begin at %s: %s %s: expected %s, seen %s", o.phase, c.Verdict, c.Name,
							c.Expected, c.Seen)
					}
				}
			}
		})
	}
}

// counter is a sliding counter as others make it.
type counter struct {
	limit   store.Limit
	rounded func(share float64) float64
	anew    bool // windows begin with the first request of an unused subject, and else at the epoch
	charges bool // what it denies
	used    map[string]*window
}

// window is what was used in the window that began at an instant, and in the one before.
type window struct {
	begin           time.Time
	before, current float64
}

func (c *counter) decide(subject string, at store.Instant) (d store.Decision) {
	w, now, period := c.used[subject], at.Time(), c.limit.Period
	if w == nil || c.anew && now.Sub(w.begin) >= 2*period {
		w = &window{begin: now}
		if c.used[subject] = w; !c.anew {
			w.begin = now.Truncate(period)
		}
	}
	for ; now.Sub(w.begin) >= period; w.begin = w.begin.Add(period) {
		w.before, w.current = w.current, 0
	}
	share := c.rounded(w.before * (1 - now.Sub(w.begin).Seconds()/period.Seconds()))
	if d.Allowed = share+w.current+1 <= float64(c.limit.Count); !d.Allowed {
		d.RetryAfter = time.Second
	}
	if d.Allowed || c.charges {
		w.current++
	}
	return d
}

// A sliding counter is accused in none of the ways in which it is made. A period that is 5 % too long or too short is
// found, if that is more than a unit: nearly always, since windows may begin while several requests are sent.
func TestThePeriodOfASlidingCounter(t *testing.T) {
	const seeds = 6
	for _, test := range []struct {
		limit string
		made  counter
		found bool
	}{
		{"sliding-counter:20/2s", counter{rounded: math.Floor}, true},
		{"sliding-counter:20/2s", counter{rounded: math.Ceil}, true},
		{"sliding-counter:20/2s", counter{rounded: math.Floor, anew: true}, false},
		{"sliding-counter:20/2s", counter{rounded: math.Ceil, charges: true}, false},
		{"sliding-counter:200/30s", counter{rounded: math.Round, anew: true}, true},
		{"sliding-counter:200/30s", counter{rounded: math.Round, charges: true}, false},
		{"sliding-counter:1/5s", counter{rounded: math.Floor}, false},
	} {
		for _, longer := range []time.Duration{0, -5, 5} {
			found := 0
			for seed := range uint64(seeds) {
				c := test.made
				c.limit, c.used = parse(t, test.limit), map[string]*window{}
				c.limit.Period += c.limit.Period * longer / 100
				s := simulated(&c)
				s.seed = seed
				r := given(t, s, test.limit, Config{Quota: 3000, MaxTime: 10 * time.Minute})
				if r.check(checkRecovery).Verdict == Fail {
					found++
				}
			}
			if longer == 0 && found > 0 || longer != 0 && test.found && found < seeds-1 {
				t.Errorf("%s, anew %t, charges %t, %d %% longer: found %d times of %d", test.limit, test.made.anew,
					test.made.charges, longer, found, seeds)
			}
		}
	}
}

// Requests that were under way together were decided in no known order: an admission among them is no recovery after a
// denial.
func TestRequestsAtOnceProveNoOrder(t *testing.T) {
	for _, limit := range []string{"fixed-window:100/1h", "sliding-log:50/1h"} {
		r := given(t, simulated(newOurs(t, limit)), limit, Config{Quota: 3000, MaxTime: time.Minute, Workers: 16})
		for name, want := range map[string]Verdict{checkAdmitted: Pass, checkSubjects: Pass, checkRecovery: Unknown} {
			if c := r.check(name); c.Verdict != want {
				t.Errorf("%s: %s %s: %s", limit, c.Verdict, name, c.Seen)
			}
		}
	}
}

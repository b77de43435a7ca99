package probe

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/probe/explain"
	"github.com/limitctl/limitctl/internal/tier"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// run probes a server in virtual time.
func run(t *testing.T, s *server, config Config) (r *Result) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s.random = rand.New(rand.NewPCG(7, 7))
		time.Sleep(time.Duration(s.chance() * float64(time.Hour)))
		config.Client = s
		var err error
		if r, err = Run(t.Context(), &config); err != nil {
			t.Errorf("error %v", err)
		}
	})
	return r
}

// What counts in a way of its own is held to its limit in that behaviour: none of the checks that
// depend on it fails, whether the limit was found or given.
func TestPeculiarServersFailNoCheckOfTheirLimit(t *testing.T) {
	tier.Full(t, "many cases, which take long")
	haproxy := func(*testing.T) *server { return simulated(&haproxyRate{most: 10, period: 10_000}) }
	nginx := func(*testing.T) *server { return simulated(&nginxLimit{rate: 10_000, burst: 5}) }
	rounded := func(*testing.T) *server { return simulated(&roundedCounter{most: 10, period: 1e6}) }
	refreshed := func(*testing.T) *server { return simulated(&refreshedCounter{most: 10, period: 10e6}) }
	counted := func(*testing.T) *server { return simulated(&countedLog{most: 10, period: 10e6}) }
	atIntervals := func(*testing.T) *server { return simulated(&intervals{most: 10, period: 10e6}) }
	ban := func(t *testing.T) *server {
		return simulated(&banning{decider: newOurs(t, "sliding-log:10/2s"), ban: 15 * time.Second})
	}
	for _, test := range []struct {
		name, given string
		server      func(t *testing.T) *server
		limit       string
		behaviour   explain.Behaviour
	}{
		{"haproxy", "", haproxy, "sliding-counter:10/10s,from=first",
			explain.Behaviour{Anchored: true, RoundsDown: true, ChargesDenied: true}},
		{"haproxy, given", "sliding-counter:10/10s", haproxy, "sliding-counter:10/10s", explain.Behaviour{}},
		{"nginx", "", nginx, "token-bucket:10/1s,burst=6", explain.Behaviour{}},
		{"nginx, given", "token-bucket:10/1s,burst=6", nginx, "token-bucket:10/1s,burst=6", explain.Behaviour{}},
		{"rounded", "", rounded, "sliding-counter:10/1s", explain.Behaviour{RoundsNearest: true}},
		{"refreshed", "", refreshed, "fixed-window:10/10s,from=first", explain.Behaviour{Refreshed: true}},
		{"refreshed, given", "fixed-window:10/10s,from=first", refreshed, "fixed-window:10/10s,from=first", explain.Behaviour{}},
		{"counted", "", counted, "sliding-log:10/10s", explain.Behaviour{ChargesDenied: true}},
		{"counted, given", "sliding-log:10/10s", counted, "sliding-log:10/10s", explain.Behaviour{}},
		{"at intervals", "", atIntervals, "token-bucket:10/10s,refill=10s", explain.Behaviour{}},
		{"at intervals, given", "fixed-window:10/10s", atIntervals, "fixed-window:10/10s", explain.Behaviour{}},
		{"ban", "", ban, "sliding-log:10/2s", explain.Behaviour{Ban: 15 * time.Second}},
	} {
		t.Run(test.name, func(t *testing.T) {
			config := Config{Quota: 3000, MaxTime: 20 * time.Minute, Workers: 16}
			if test.given != "" {
				limit, err := store.ParseLimit(test.given)
				if err != nil {
					t.Fatal(err)
				}
				config.Limit = &limit
			}
			s := test.server(t)
			r := run(t, s, config)
			if r.Limit == nil || canonical(t, r.Limit) != test.limit || r.Behaviour != test.behaviour {
				t.Errorf("it finds %v, %+v, notes %q, alternatives %v", r.Limit, r.Behaviour, r.Notes, r.Alternatives)
			}
			for _, c := range r.Checks {
				// Nothing here tells when to come again.
				if c.Name != checkRetryAfter && c.Verdict == Fail ||
					c.Verdict != Pass && (c.Name == checkAdmitted || c.Name == checkRecovery || c.Name == checkSubjects) {
					t.Errorf("%s %s: expected %s, seen %s", c.Verdict, c.Name, c.Expected, c.Seen)
				}
			}
			t.Logf("%d requests, notes %q", s.sent, r.Notes)
		})
	}
}

func canonical(t *testing.T, l *store.Limit) string {
	normal, err := l.Normalize()
	if err != nil {
		t.Fatal(err)
	}
	return normal.String()
}

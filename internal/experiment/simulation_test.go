package experiment

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/report"
	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// limitOf returns a candidate of a limit as somebody wrote it.
func limitOf(t *testing.T, text string) Candidate {
	t.Helper()
	limit, err := store.ParseLimit(text)
	if err != nil {
		t.Fatal(err)
	}
	return Candidate{Limits: []store.Limit{limit}}
}

// Wrappers around a store save calls of it, and what they cost is told: a lease that holds units of one replica denies
// another one.
func TestWrappersInASimulation(t *testing.T) {
	var b strings.Builder
	b.WriteString("time,key\n")
	for i := range 3000 {
		fmt.Fprintf(&b, "%.3f,a\n", 1431857100+float64(i)/300)
	}
	log := readLog(t, b.String())
	leases, denials := &store.Leases{Max: 50, Term: 100 * time.Millisecond}, &store.DenialMemory{MaxStale: time.Second}
	for name, test := range map[string]struct {
		wrap      Wrap
		calls     int64 // at most
		exact     bool
		overLimit int64 // units, at most
	}{
		"replicas alone":  {Wrap{Replicas: 3}, 0, true, 0},
		"a denial memory": {Wrap{Denials: denials, Replicas: 2}, 2600, false, 0},
		"leases":          {Wrap{Leases: leases, Replicas: 2}, 2500, false, 100},
		"both, by one":    {Wrap{Leases: leases, Denials: denials}, 2000, false, 100},
	} {
		plan := &Simulation{Candidates: []Candidate{limitOf(t, "sliding-counter:1000/5s")}, Log: log, Wrap: test.wrap}
		result, err := plan.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		run := &result.Runs[0]
		if run.Requests != 3000 || result.Failed(false, false) || run.Denied == 0 {
			t.Errorf("%s: %d requests, %d denied, failed %t", name, run.Requests, run.Denied,
				result.Failed(false, false))
		}
		if w := run.Wrapped; (w == nil) != test.exact || w != nil && (w.StoreCalls == 0 || w.StoreCalls > test.calls ||
			run.Audit.OverAdmitted > test.overLimit) {
			t.Errorf("%s: %+v, %+v", name, w, run.Audit)
		}
	}
}

// What is denied most under a policy with limits by different attributes are keys of these limits: an attacker who
// tries many names from one address is one key, and none of the names is. What other limits denied does not count as
// allowed.
func TestTheMostDeniedOfAPolicyAreKeysOfItsLimits(t *testing.T) {
	var b strings.Builder
	b.WriteString("time,ip,email\n")
	for i := range 40 {
		fmt.Fprintf(&b, "%d,10.0.0.66,victim-%d\n", 1431857100+i, i)
	}
	for i, ip := range []string{"10.0.0.1", "10.0.0.2", "10.0.0.66", "10.0.0.3", "10.0.0.4"} {
		fmt.Fprintf(&b, "%d,%s,one\n", 1431857200+i, ip)
	}
	limits := []policy.Limit{
		{Limit: limiter.LimitOf("address", limitOf(t, "5/1h").Limits[0]), By: []string{"ip"}},
		{Limit: limiter.LimitOf("name", limitOf(t, "3/1h").Limits[0]), By: []string{"email"}},
		{Limit: limiter.LimitOf("trial", limitOf(t, "1/1h").Limits[0]), By: []string{"email"}},
	}
	limits[2].Shadow = true
	plan := &Simulation{Candidates: []Candidate{{Policy: &policy.Policy{Name: "login", Limits: limits}}},
		Log: readLog(t, b.String(), "ip", "email")}
	result, err := plan.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	run := &result.Runs[0]
	most := []report.KeyCount{{Key: "ip=10.0.0.66 (address)", Allowed: 5, Denied: 36},
		{Key: "email=one (name)", Allowed: 3, Denied: 1}}
	if run.Requests != 45 || run.Denied != 37 || run.Keys != 45 || run.KeysDenied != 37 ||
		!slices.Equal(run.MostDenied, most) {
		t.Errorf("%d requests, %d denied, %d keys, %d of them denied, most %+v",
			run.Requests, run.Denied, run.Keys, run.KeysDenied, run.MostDenied)
	}
}

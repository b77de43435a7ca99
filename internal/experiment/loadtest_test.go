package experiment

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/report"
	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/loadgen"
	"github.com/limitctl/limitctl/pkg/loadgen/audit"
)

// closedLoop is a load of that many requests, whatever time they take.
func closedLoop(subjects int, requests int64) Load {
	return Load{
		Subjects: subjects, Mix: loadgen.Mix{Subjects: loadgen.Evenly(uint32(subjects)), Costs: loadgen.Costs{
			Least: 1, Most: 1}},
		Workers: 1, Duration: time.Hour, Requests: requests, Words: "one after the other",
	}
}

// It is said when there were too few workers, and only when that made a difference.
func TestTooFewWorkers(t *testing.T) {
	open := make([]loadgen.Stage, 1)
	for _, test := range []struct {
		requests, waited, timedOut int64
		stages                     []loadgen.Stage
		limited                    bool
		want                       string
	}{
		{50, 1, 25, open, false, "1 request found no worker free; the latency includes the wait. Either the other " +
			"side is at its limit, or --workers 3 is too few"},
		{50, 47, 26, open, false, "47 requests found no worker free; the latency includes the wait. The other side " +
			"does not answer in time"},
		{1000, 20, 0, open, true, ""}, {1000, 10, 0, open, false, ""}, {50, 1, 0, nil, false, ""},
	} {
		r := &loadRun{LoadTest: &LoadTest{Load: Load{Workers: 3, Stages: test.stages}}, population: new(population)}
		run := &report.Run{Result: loadgen.Result{
			Requests: test.requests, Waited: test.waited, TimedOut: test.timedOut, GeneratorLimited: test.limited}}
		if r.warn(run, Description{}); strings.Join(run.Warnings, "") != test.want {
			t.Errorf("%d of %d waited: %q", test.waited, test.requests, run.Warnings)
		}
	}
}

// The words that a command has for a limit that is not decided at one instant.
func TestWarningsOfARun(t *testing.T) {
	r := &loadRun{LoadTest: &LoadTest{Load: closedLoop(1, 0)}}
	population, err := (&Candidate{Limits: []store.Limit{parseLimit(t, "5/1h"), parseLimit(t, "5/1d")}}).madeUp(1)
	if err != nil {
		t.Fatal(err)
	}
	r.population = population
	for divided, want := range map[bool][]string{
		true:  {"limits of different subjects lie in different slots", "the store's clock went back: 7 answers "},
		false: {"the store's clock went back: 7 answers "},
	} {
		run := &report.Run{Result: loadgen.Result{Audit: loadgen.Audit{Totals: audit.Totals{UnderAdmitted: 1}},
			ClockWentBack: 7}}
		run.Limits = make([]loadgen.Limit, 2)
		if r.warn(run, Description{Divided: divided}); !slices.EqualFunc(run.Warnings, want, strings.HasPrefix) {
			t.Errorf("divided %t: it warns of %q", divided, run.Warnings)
		}
	}
}

package test

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/limitctl/limitctl/internal/experiment"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/internal/probe"
	"github.com/limitctl/limitctl/internal/report"
	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/loadgen"
	"github.com/limitctl/limitctl/pkg/loadgen/audit/interval"
)

// standardTimeout is the default of --timeout.
const standardTimeout = 2 * time.Second

// probed runs `probe --limit`.
func probed(t *testing.T, h handler, limit string, seed uint64) (a *probeAnswer) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		get := newService(h, seed)
		result, err := probe.Run(t.Context(), &probe.Config{Client: get, Limit: limitOf(limit), Quota: probeRequests,
			MaxTime: probeTime,
			Timeout: standardTimeout, Workers: probeWorkers})
		s := sent(get.Describe(), time.Now(), time.Now(), result.Events, nil, result.Notes)
		a = newProbeAnswer(s, limitOf(limit), result, err != nil)
	})
	return a
}

// loaded runs `loadtest --limit` with the default load.
func loaded(t *testing.T, h handler, limit string, seed uint64) (d *report.Document) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		get := newService(h, seed)
		get.due, get.every = time.Now(), time.Second/defaultRate
		plan := experiment.LoadTest{
			Candidates: []experiment.Candidate{{Limits: []store.Limit{limitOf(limit)}}}, Timeout: standardTimeout,
			Load: experiment.Load{
				Subjects: 1, Seed: 1, Workers: 64, Duration: defaultDuration, // more are never busy at this rate
				Mix: loadgen.Mix{Subjects: loadgen.Evenly(1), Costs: loadgen.Costs{Least: 1, Most: 1}},
			},
			Endpoint: &experiment.EndpointPlan{Intervals: interval.Options{Resolution: time.Millisecond}},
			Open:     func() (experiment.Target, error) { return experiment.NewEndpointTarget(get), nil },
		}
		var err error
		if d, err = plan.Run(t.Context()); err != nil && len(d.Runs) == 0 {
			t.Fatal(err)
		}
		d.Judge()
	})
	return d
}

// printed is what a command prints.
func printed(a output.Answer) string {
	var out bytes.Buffer
	a.Print(&output.Printer{Out: &out})
	return out.String()
}

// detects runs the finder of a defect, and reports whether it says what it should. said is the whole report.
func (d *defect) detects(t *testing.T) (is bool, said string) {
	if words, is := strings.CutPrefix(d.found, "loadtest "); is {
		document := loaded(t, d.is, d.limit, 1)
		return document.Verdict != report.Pass && slices.ContainsFunc(document.Reasons, func(reason string) bool {
			return strings.Contains(reason, words)
		}), printed(report.Answer{Report: document})
	}
	a := probed(t, d.is, d.limit, 1)
	return slices.ContainsFunc(a.Checks, func(c probe.Check) bool {
		return "probe "+c.Name == d.found && c.Verdict == probe.Fail
	}), printed(a)
}

// Each defect is found by a command with its default flags.
func TestTheCatalogueOfDefectsIsFound(t *testing.T) {
	for i, d := range catalogue() {
		if testing.Short() && i%6 != 1 {
			continue
		}
		t.Run(d.what, func(t *testing.T) {
			t.Parallel()
			if is, said := d.detects(t); !is {
				t.Errorf("%s does not find it:\n%s", d.found, said)
			}
		})
	}
}

// No command reports a failure of a service that does what it says.
func TestNoFailureIsReportedOfTheHonest(t *testing.T) {
	for i, h := range honestOnes {
		if testing.Short() && i%4 != 0 {
			continue
		}
		t.Run(h.what, func(t *testing.T) {
			t.Parallel()
			if a := probed(t, h.is(), h.limit, 0); a.Verdict == report.Fail {
				t.Errorf("probe --limit:\n%s", printed(a))
			}
			if testing.Short() || i%4 != 0 {
				return
			}
			if d := loaded(t, h.is(), h.limit, 0); d.Verdict == report.Fail {
				t.Errorf("loadtest:\n%s", printed(report.Answer{Report: d}))
			}
		})
	}
}

// A period that is a little too long or too short is no pass, whether denied requests might count or windows begin
// anywhere.
func TestAPeriodThatIsOffIsNoPass(t *testing.T) {
	seeds := uint64(20)
	if testing.Short() {
		seeds = 3
	}
	for _, text := range []string{window, first, log, bucket, "sliding-log:5/10s", "fixed-window:100/1m",
		"leaky-bucket:10/1s,burst=50", "sliding-counter:100/1m"} {
		for _, percent := range []time.Duration{95, 105} {
			limit := limitOf(text)
			limit.Period = limit.Period * percent / 100
			for seed := range seeds {
				inner, far := tells(text, memory{}.keeps(limit)), time.Duration(seed%2)*12*time.Millisecond
				a := probed(t, func(q *asked, a *answered) {
					q.shortest, q.longest = far, 3*far+time.Millisecond
					inner(q, a)
				}, text, seed)
				if !slices.ContainsFunc(a.Checks, func(c probe.Check) bool {
					return (c.Name == "admitted" || c.Name == "recovery") && c.Verdict == probe.Fail
				}) {
					t.Errorf("%s, and its period is %d %%, seed %d:\n%s", text, percent, seed, printed(a))
				}
			}
		}
	}
}

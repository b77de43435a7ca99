package lab

import (
	"bytes"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/experiment"
	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/cmd/internal/probe"
	"github.com/limitctl/limitctl/cmd/internal/report"
	"github.com/limitctl/limitctl/cmd/internal/report/show"
	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/loadgen"
	"github.com/limitctl/limitctl/pkg/loadgen/audit/interval"
)

var thorough = flag.Bool("thorough", false, "try long loads, and honest services with many seeds")

// standardTimeout is the default of --timeout.
const standardTimeout = 2 * time.Second

// probed runs `probe --limit`.
func probed(t *testing.T, h handler, limit string, seed uint64) (a *probeAnswer) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		get := newClient(h, seed)
		result, err := probe.Run(t.Context(), &probe.Config{Client: get, Limit: limitOf(limit), Quota: probeRequests, MaxTime: probeTime,
			Timeout: standardTimeout, Workers: probeWorkers})
		a = &probeAnswer{Result: result, endpoint: get.Describe(), limit: limitOf(limit), unfinished: err != nil}
	})
	return a
}

// loaded runs `loadtest --limit` with the default load, and what else a flag says.
func loaded(t *testing.T, h handler, limit string, seed uint64, flag string) (d *report.Document) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		keys, long := 1, defaultDuration
		fmt.Sscanf(flag, "--keys %d", &keys)
		if text, has := strings.CutPrefix(flag, "--duration "); has {
			long, _ = time.ParseDuration(text)
		}
		get := newClient(h, seed)
		get.pace = &pace{time.Now(), time.Second / defaultRate}
		plan := experiment.LoadTest{
			Candidates: []experiment.Candidate{{Limits: []store.Limit{limitOf(limit)}}}, Timeout: standardTimeout,
			Load: experiment.Load{
				Subjects: keys, Seed: 1, Workers: 64, Duration: long, // more are never busy at this rate
				Mix: loadgen.Mix{Subjects: loadgen.Evenly(uint32(keys)), Costs: loadgen.Costs{Least: 1, Most: 1}},
			},
			Endpoint: &experiment.EndpointPlan{Intervals: interval.Options{Resolution: time.Millisecond}},
			Open:     func() (experiment.Target, error) { return experiment.NewEndpointTarget(get), nil },
		}
		var err error
		if d, err = plan.Run(t.Context(), noWatcher{}); err != nil && len(d.Runs) == 0 {
			t.Fatal(err)
		}
		d.Judge()
	})
	return d
}

type noWatcher struct{}

func (noWatcher) Begin(*experiment.Candidate) bool        { return false }
func (noWatcher) Progress(*loadgen.Result, time.Duration) {}
func (noWatcher) End()                                    {}
func (noWatcher) Kept(string)                             {}

// printed is what a command prints.
func printed(a output.Answer) string {
	var out bytes.Buffer
	a.Print(&output.Printer{Out: &out})
	return out.String()
}

// detects runs the finder of a defect, and reports whether it says what it should. said is the whole report.
func (d *defect) detects(t *testing.T, flag string) (is bool, said string) {
	finder, words, _ := strings.Cut(d.found, " ")
	if finder == "loadtest" {
		document := loaded(t, d.is(d.limit), d.limit, 1, flag)
		said = printed(show.Answer{Report: document})
		return document.Verdict != report.Pass && slices.ContainsFunc(document.Reasons, func(reason string) bool {
			return strings.Contains(reason, words)
		}), said
	}
	name, words, _ := strings.Cut(words, ": ")
	a := probed(t, d.is(d.limit), d.limit, 1)
	return slices.ContainsFunc(a.Checks, func(c probe.Check) bool {
		return c.Name == name && strings.Contains(c.Seen, words) && (c.Verdict == probe.Fail || words != "")
	}), printed(a)
}

// Each defect is found by a command with its default flags, or the report names the flag that finds it.
func TestTheCatalogueOfDefectsIsFound(t *testing.T) {
	n := 0
	for _, f := range catalogue {
		for _, d := range f.defects {
			if n++; testing.Short() && n%8 != 1 {
				continue
			}
			t.Run(d.name, func(t *testing.T) {
				if isLong := d.flag != "" && strings.HasPrefix(d.found, "loadtest"); !isLong || *thorough {
					if is, said := d.detects(t, d.flag); !is {
						t.Errorf("%s: %s does not find it:\n%s", d.what, d.found, said)
					}
				}
				if d.flag == "" {
					return
				}
				name, _, _ := strings.Cut(d.flag, " ")
				if is, said := d.detects(t, ""); is || !strings.Contains(said, name) {
					t.Errorf("%s: found without %s: %v; or the report does not name the flag:\n%s", d.what, name, is, said)
				}
			})
		}
	}
}

// No command reports a failure of a service that does what it says.
func TestNoFailureIsReportedOfTheHonest(t *testing.T) {
	runs := 0
	for i, h := range honestOnes {
		if testing.Short() && i%7 != 2 || !*thorough && i%2 == 1 {
			continue
		}
		t.Run(h.name, func(t *testing.T) {
			probes, loads := 1, 0
			switch {
			case *thorough:
				probes, loads = 6, 3
			case i%8 == 4 && !testing.Short():
				loads = 1
			}
			runs += probes + loads
			for seed := range uint64(probes) {
				if a := probed(t, h.is(), h.limit, seed); a.verdict() == report.Fail {
					t.Errorf("%s: probe --limit, seed %d:\n%s", h.what, seed, printed(a))
				}
			}
			for seed := range uint64(loads) {
				if d := loaded(t, h.is(), h.limit, seed, ""); d.Verdict == report.Fail {
					t.Errorf("%s: loadtest, seed %d:\n%s", h.what, seed, printed(show.Answer{Report: d}))
				}
			}
		})
	}
	t.Logf("%d runs", runs)
}

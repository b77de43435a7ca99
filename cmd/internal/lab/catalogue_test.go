package lab

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/endpoint"
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

// clients are the clients of a service that a command has by default: GET, and what else is given to add.
func clients(h handler, seed uint64, withCosts bool) (get, fresh *client, methods []probe.Method) {
	get = &client{service: newService(h, seed), connections: &connections{}, method: http.MethodGet, withCosts: withCosts}
	change := func(change func(c *client)) *client {
		other := *get
		change(&other)
		return &other
	}
	fresh = change(func(c *client) { c.fresh = true })
	for _, method := range []string{http.MethodHead, http.MethodOptions} {
		methods = append(methods, probe.Method{Name: method, Client: change(func(c *client) { c.method = method })})
	}
	return get, fresh, methods
}

// standardTimeout is the default of --timeout.
const standardTimeout = 2 * time.Second

// probed runs `probe`, with --limit unless that is empty, and what else a flag says.
func probed(t *testing.T, h handler, limit string, seed uint64, flag string) (a *probeAnswer) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		config := &probe.Config{Quota: probeRequests, MaxTime: probeTime, Timeout: standardTimeout, Workers: probeWorkers, AnyName: true}
		fmt.Sscanf(flag, "--workers %d", &config.Workers)
		get, fresh, methods := clients(h, seed, flag == endpoint.CostPlace)
		config.Client, config.Fresh, config.Methods = get, fresh, methods
		if limit != "" {
			l := limitOf(limit)
			config.Limit = &l
		}
		result, err := probe.Run(t.Context(), config)
		a = &probeAnswer{Result: result, endpoint: get.Describe(), given: limit != "", unfinished: err != nil && limit != ""}
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
		get, _, _ := clients(h, seed, false)
		get.pace = &pace{time.Now(), time.Second / defaultRate}
		plan := experiment.LoadTest{
			Candidates: []experiment.Candidate{{Limits: []store.Limit{limitOf(limit)}}}, Timeout: standardTimeout,
			Load: experiment.Load{
				Subjects: keys, Seed: 1, Workers: 64, Duration: long, // more are never busy at this rate
				Mix: loadgen.Mix{Subjects: loadgen.Evenly(uint32(keys)), Costs: loadgen.Costs{Least: 1, Most: 1}},
			},
			Endpoint: &experiment.EndpointPlan{Intervals: interval.Options{Resolution: time.Millisecond, Skew: -1}},
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

func (noWatcher) Ready(context.Context) error             { return nil }
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
	a := probed(t, d.is(d.limit), d.limit, 1, flag)
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
			probes, loads, finds := 1, 0, 0
			switch {
			case *thorough:
				probes, loads, finds = 6, 3, 3
			case i%8 == 4 && !testing.Short():
				loads = 1
			}
			if h.limit == "" { // looking for what is not there takes long
				probes, loads, finds = 0, 0, finds/3
			}
			runs += probes + loads + finds
			for seed := range uint64(probes) {
				if a := probed(t, h.is(), h.limit, seed, ""); a.verdict() == report.Fail {
					t.Errorf("%s: probe --limit, seed %d:\n%s", h.what, seed, printed(a))
				}
			}
			for seed := range uint64(finds) {
				if a := probed(t, h.is(), "", seed, ""); a.verdict() == report.Fail {
					t.Errorf("%s: probe, seed %d:\n%s", h.what, seed, printed(a))
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

// The table of the catalogue in the docs is that of the tests.
func TestTheCatalogueIsInTheDocs(t *testing.T) {
	table := "| defects | number | found by `probe --limit` | by `loadtest --limit` | with a flag that the report names |\n" +
		"|---|---|---|---|---|\n"
	var all [4]int
	row := func(name string, n [4]int) string {
		return fmt.Sprintf("| %s | %d | %d | %d | %d |\n", name, n[0], n[1], n[2], n[3])
	}
	for _, f := range catalogue {
		var n [4]int
		for _, d := range f.defects {
			n[0]++
			switch {
			case d.flag != "":
				n[3]++
			case strings.HasPrefix(d.found, "probe"):
				n[1]++
			default:
				n[2]++
			}
		}
		for i := range n {
			all[i] += n[i]
		}
		table += row(f.name, n)
	}
	table += row("all", all)
	page, err := os.ReadFile("../../../docs/design/probe.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), table) {
		t.Errorf("docs/design/probe.md does not have this table:\n%s", table)
	}
}

package test

import (
	"cmp"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/experiment"
	"github.com/limitctl/limitctl/internal/outcome"
	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/loadgen"
)

// parseLoad reads the flags of a load as a command does that has no others.
func parseLoad(t *testing.T, args ...string) (experiment.Load, error) {
	t.Helper()
	o := new(loadOptions)
	cmd := &cobra.Command{Use: "loadtest"}
	o.addFlags(cmd)
	if err := cmd.ParseFlags(args); err != nil {
		t.Fatal(err)
	}
	return o.parse(cmd)
}

// What is sent, and for how long, follows from what was said and what was not.
func TestLoads(t *testing.T) {
	for _, test := range []struct {
		args     string
		words    string
		rate     float64
		duration time.Duration
		closed   bool
		arrivals int // of the first second
	}{
		{"", "1000/s, over 1 key", 1000, 10 * time.Second, false, 1000},
		{"--rate 0.5", "0.5/s, over 1 key", 0.5, 10 * time.Second, false, 1},
		{"--rate 250 --workers 3 --keys 7 --cost 2", "250/s, over 7 keys, cost 2", 250, 10 * time.Second, false, 250},
		{"--workers 3", "closed loop of 3 workers, over 1 key", 0, 10 * time.Second, true, 0},
		{"--workers 1 --duration 3s", "closed loop of 1 worker, over 1 key", 0, 3 * time.Second, true, 0},
		{"--stages 2s:100,1s:0", "stages 2s:100,1s:0, over 1 key", 50, 3 * time.Second, false, 25},
		{"--stages 2s:100 --duration 1s", "stages 2s:100, over 1 key", 25, time.Second, false, 25},
		{"--stages 2s:100 --workers 5", "stages 2s:100, over 1 key", 50, 2 * time.Second, false, 25},
		{"--rate 1k --keys 9 --distribution zipf:1.1 --cost uniform:2-1k",
			"1000/s, over 9 keys (zipf:1.1), cost uniform:2-1k",
			1000, 10 * time.Second, false, 1000},
	} {
		load, err := parseLoad(t, strings.Fields(test.args)...)
		if err != nil {
			t.Errorf("%s: %v", test.args, err)
			continue
		}
		duration := cmp.Or(load.Duration, loadgen.Length(load.Stages))
		if load.Words != test.words || load.Rate != test.rate || duration != test.duration ||
			load.IsClosed() != test.closed {
			t.Errorf("%s: %q at %v/s for %s, closed %t", test.args, load.Words, load.Rate, duration, load.IsClosed())
		}
		arrivals := load.Arrivals(loadgen.Setting{})
		if (arrivals == nil) != test.closed {
			t.Errorf("%s: the load is %v", test.args, arrivals)
		}
		if arrivals == nil {
			continue
		}
		n, costs := 0, load.Mix.Costs
		for a, ok := arrivals.Next(); ok && a.Due < time.Second; a, ok = arrivals.Next() {
			if n++; int(a.Subject) >= load.Subjects || a.Cost < costs.Least || a.Cost > costs.Most {
				t.Errorf("%s: %+v", test.args, a)
			}
		}
		if n != test.arrivals {
			t.Errorf("%s: %d in the first second, want %d", test.args, n, test.arrivals)
		}
	}
}

// Where no flag says when requests are sent, it is at a rate that reaches a limit of each candidate, if that is not too
// high.
func TestTheRateThatReachesALimit(t *testing.T) {
	for _, test := range []struct {
		limits []string
		load   experiment.Load
		want   float64
	}{
		{[]string{"100/1s"}, experiment.Load{Subjects: 10, Duration: 2 * time.Second}, 2000},
		{[]string{"20/1s"}, experiment.Load{Subjects: 1, Duration: time.Second}, 1000},
		{[]string{"1000/1m,burst=2000"}, experiment.Load{Subjects: 2, Duration: 10 * time.Second}, 1000},
		{[]string{"10000/1h"}, experiment.Load{Subjects: 1, Duration: 10 * time.Second}, 2010},
		// decided together
		{[]string{"10000/1h", "20/1h"}, experiment.Load{Subjects: 1, Duration: 10 * time.Second}, 1000},
		{[]string{"100000/1h"}, experiment.Load{Subjects: 1, Duration: 10 * time.Second}, 1000},
		{[]string{"10000/1h"}, experiment.Load{Subjects: 1, Duration: 10 * time.Second,
			Mix: loadgen.Mix{Costs: loadgen.Costs{Least: 1, Most: 3}}}, 1010},
	} {
		var candidate experiment.Candidate
		for _, text := range test.limits {
			limit, err := store.ParseLimit(text)
			if err != nil {
				t.Fatal(err)
			}
			candidate.Limits = append(candidate.Limits, limit)
		}
		load := test.load
		if load.Mix.Costs.Most == 0 {
			load.Mix.Costs = loadgen.Costs{Least: 1, Most: 1}
		}
		load.Rate = defaultRate
		if load.Reach([]experiment.Candidate{candidate}, mostChosenRate); load.Rate != test.want {
			t.Errorf("%v: %v/s, want %v/s", test.limits, load.Rate, test.want)
		}
	}
}

// Flags that are wrong are errors of usage that name their flag.
func TestLoadsThatAreWrong(t *testing.T) {
	for name, texts := range map[string][]string{
		"stages": {"", ",", "10s", "10s:", ":5", "10s:5,", "10s:5;1s:6", "-1s:5", "0s:5", "1s:-5", "1s:Inf", "1s:1e8",
			"1s:NaN", "40d:5", "1s:0", "1ms:1", "1s:0,1s:0"},
		"cost": {"", "0", "-1", "1.5", "1e3", "many", "1000000001", "1-5", "uniform", "uniform:", "uniform:5",
			"uniform:5-", "uniform:-5", "uniform:5-4", "uniform:0-4", "uniform:1-2-3", "uniform:1-1000000001",
			"normal:1-5", " 1"},
		"distribution": {"", "uniform:", "Uniform", "zipf", "zipf:", "zipf:0", "zipf:-1", "zipf:11", "zipf:NaN",
			"zipf:Inf", "zipf:x"},
	} {
		for _, text := range texts {
			_, err := parseLoad(t, "--keys", "10", "--"+name, text)
			if cli.ExitCode(err) != outcome.ExitUsage || !strings.HasPrefix(err.Error(), "--"+name) {
				t.Errorf("--%s %q: %v", name, text, err)
			}
		}
	}
}

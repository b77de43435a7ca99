package compare

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/limitctl/limitctl/cmd/internal/report"
	"github.com/limitctl/limitctl/cmd/internal/report/sample"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// A comparison tells of answers by others: unguarded ones are a regression.
func TestComparisonTellsOfAnswersByOthers(t *testing.T) {
	c, err := Reports([]report.Named{{Name: "sound", Document: sample.OneRun()}},
		report.Named{Name: "outage", Document: sample.Outage()}, Options{Margins: DefaultMargins()})
	if err != nil {
		t.Fatal(err)
	}
	verdicts := map[string]report.Verdict{}
	for _, d := range c.Runs[0].Differences {
		verdicts[d.Metric] = d.Verdict
	}
	if verdicts["unguarded_percent"] != Worse || verdicts["errors_percent"] != Worse || verdicts["local_percent"] != Changed {
		t.Errorf("%v", verdicts)
	}
}

// compared returns the verdicts by metric on a run and what change makes of it.
func compared(t *testing.T, margins Margins, change func(*report.Run)) (map[string]report.Verdict, *Comparison) {
	t.Helper()
	base, latest := report.New(report.LoadTest), report.New(report.LoadTest)
	base.Runs, latest.Runs = []report.Run{sample.LoadRun("token-bucket", 1, 1, 0)}, []report.Run{sample.LoadRun("token-bucket", 1, 1, 0)}
	base.Runs[0].Timeline, latest.Runs[0].Timeline = nil, nil // so that nothing is known of noise within the runs
	change(&latest.Runs[0])
	c, err := Reports([]report.Named{{Name: "base.json", Document: base}}, report.Named{Name: "new.json", Document: latest},
		Options{Margins: margins})
	if err != nil {
		t.Fatal(err)
	}
	verdicts := map[string]report.Verdict{}
	for _, d := range c.Runs[0].Differences {
		if d.Verdict != Same {
			verdicts[d.Metric] = d.Verdict
		}
	}
	return verdicts, c
}

func TestWhatIsARegression(t *testing.T) {
	for name, test := range map[string]struct {
		metric string
		want   report.Verdict
		change func(*report.Run)
	}{
		"p99 by 9 %": {"p99_us", Same, func(r *report.Run) { r.Histograms, r.Latency.P99 = nil, r.Latency.P99*109/100 }},
		"p99 by 11 %": {"p99_us", Worse, func(r *report.Run) {
			r.Histograms, r.Latency.P99 = nil,
				r.Latency.P99*111/100
		}},
		"p99 a third less":              {"p99_us", Better, func(r *report.Run) { r.Histograms, r.Latency.P99 = nil, r.Latency.P99*2/3 }},
		"throughput by 4 %":             {"throughput", Same, func(r *report.Run) { r.ThroughputPerS *= 0.96 }},
		"throughput by 6 %":             {"throughput", Worse, func(r *report.Run) { r.ThroughputPerS *= 0.94 }},
		"one unit over":                 {"over_admitted", Worse, func(r *report.Run) { r.Audit.OverAdmitted++ }},
		"one unit under":                {"under_admitted", Worse, func(r *report.Run) { r.Audit.UnderAdmitted++ }},
		"worst window just above 1":     {"worst_window_ratio", Worse, func(r *report.Run) { r.Audit.WorstRatio = 1.0001 }},
		"worst window below 1":          {"worst_window_ratio", Same, func(r *report.Run) { r.Audit.WorstRatio = 0.4 }},
		"any error":                     {"errors_percent", Worse, func(r *report.Run) { r.Errors++ }},
		"a few dropped":                 {"dropped_percent", Same, func(r *report.Run) { r.Dropped = 20 }},
		"1 % dropped":                   {"dropped_percent", Worse, func(r *report.Run) { r.Dropped = 300 }},
		"a tenth less allowed":          {"allowed_percent", Changed, func(r *report.Run) { r.Allowed -= 3000 }},
		"server CPU by 20 %":            {"server_cpu_us", Worse, func(r *report.Run) { r.Cost.ServerCPU = sample.Pointer(12.6) }},
		"server CPU by 5 %":             {"server_cpu_us", Same, func(r *report.Run) { r.Cost.ServerCPU = sample.Pointer(10.9) }},
		"a cost that was not learnt":    {"bytes_per_key", Same, func(r *report.Run) { r.Cost.BytesPerKey = nil }},
		"less fair":                     {"fairness", Worse, func(r *report.Run) { r.Audit.Fairness = 0.7 }},
		"fairness that cannot be known": {"fairness", Same, func(r *report.Run) { r.Audit.Fairness, r.Audit.FairnessUnknown = 0, true }},
	} {
		verdicts, c := compared(t, DefaultMargins(), test.change)
		got, differs := verdicts[test.metric]
		if !differs {
			got = Same
		}
		if got != test.want || len(verdicts) > 1 || (c.Regressions == 1) != (test.want == Worse) {
			t.Errorf("%s: %v with %d regressions, want %s", name, verdicts, c.Regressions, test.want)
		}
	}
}

// Times of a few microseconds differ by more than any margin, and mean nothing.
func TestTinyTimesAreNoise(t *testing.T) {
	base, latest := report.New(report.LoadTest), report.New(report.LoadTest)
	base.Runs = []report.Run{{Figures: report.Figures{Latency: &report.Quantiles{P50: 8, P90: 10, P99: 15, P999: 20}}}}
	latest.Runs = []report.Run{{Figures: report.Figures{Latency: &report.Quantiles{P50: 16, P90: 30, P99: 35, P999: 41}}}}
	c, err := Reports([]report.Named{{Name: "a", Document: base}}, report.Named{Name: "b", Document: latest},
		Options{Margins: DefaultMargins()})
	if err != nil || c.Regressions != 1 { // of p999, by 21 µs
		t.Errorf("%d regressions, %v", c.Regressions, err)
	}
}

// Two samples of one distribution differ in their tails; histograms tell that it is
// by chance, and that a shift is not.
func TestHistogramsTellChanceFromChange(t *testing.T) {
	believed, disbelieved := 0, 0
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 3))
		run := func(n int, median float64) report.Run {
			h := sample.Histogram(random, n, median, 0)
			return report.Run{Figures: report.Figures{Requests: int64(n), Latency: report.QuantilesOf(h)},
				Histograms: &report.Histograms{Latency: h}}
		}
		compare := func(a, b report.Run) int {
			base, latest := report.New(report.LoadTest), report.New(report.LoadTest)
			base.Runs, latest.Runs = []report.Run{a}, []report.Run{b}
			c, err := Reports([]report.Named{{Name: "a", Document: base}}, report.Named{Name: "b", Document: latest},
				Options{Margins: OneMargin(0)})
			if err != nil {
				t.Fatal(err)
			}
			return c.Regressions
		}
		disbelieved += compare(run(1000, 500), run(1000, 500))
		believed += compare(run(1000, 500), run(1000, 1000))
	}
	if disbelieved != 0 {
		t.Errorf("%d regressions between samples of the same distribution", disbelieved)
	}
	if believed < 3*20 { // p50, p90 and p99 at least
		t.Errorf("only %d regressions where times doubled", believed)
	}
}

func TestMargins(t *testing.T) {
	slower := func(r *report.Run) { r.ThroughputPerS *= 0.8; r.Audit.OverAdmitted = 1 }
	if verdicts, c := compared(t, OneMargin(0.25), slower); c.Regressions != 1 || verdicts["over_admitted"] != Worse {
		t.Errorf("%v", verdicts)
	}
	if verdicts, _ := compared(t, OneMargin(0), func(r *report.Run) { r.ThroughputPerS *= 0.999 }); verdicts["throughput"] != Worse {
		t.Errorf("%v", verdicts)
	}
}

// Runs are matched by what they are of, in whatever order, and what has no match is said.
func TestComparedRunsAreOfTheSameLimit(t *testing.T) {
	base, latest := sample.FiveRuns(), sample.FiveRuns()
	latest.Runs[0], latest.Runs[3] = latest.Runs[3], latest.Runs[0]
	latest.Runs = latest.Runs[:4]
	latest.Runs[1].Algorithm, latest.Runs[1].Limit = "token-bucket", "5/1s"
	c, err := Reports([]report.Named{{Name: "base.json", Document: base}}, report.Named{Name: "new.json", Document: latest},
		Options{Margins: DefaultMargins()})
	if err != nil || c.Regressions != 0 || len(c.Runs) != 3 || c.Runs[0].Run != "sliding-log 100/10s" {
		t.Errorf("%+v, %v", c, err)
	}
	warnings := strings.Join(c.Warnings, "; ")
	const want = "token-bucket 5/1s is in new.json and not in base.json; leaky-bucket 100/10s is in base.json and not in new.json; " +
		"sliding-counter 100/10s is in base.json and not in new.json"
	if warnings != want {
		t.Errorf("it warns %q", warnings)
	}
	latest.Runs = latest.Runs[1:2]
	_, err = Reports([]report.Named{{Name: "base.json", Document: base}}, report.Named{Name: "new.json", Document: latest},
		Options{Margins: DefaultMargins()})
	if !errors.Is(err, store.ErrInvalid) ||
		!strings.Contains(err.Error(), "no run of new.json is of the same limit as one of base.json") {
		t.Errorf("%v", err)
	}
}

func TestDifferentLoadsAreSaid(t *testing.T) {
	_, c := compared(t, DefaultMargins(), func(r *report.Run) {
		r.Algorithm, r.Load, r.Rate, r.Keys, r.Scenario = "gcra", "2000/s", 2000, 51, "boundary"
		r.Workers, r.Implementation, r.Store, r.DurationMS, r.GeneratorLimited = 1, report.Naive, "memory:", 60_000, true
	})
	warnings := strings.Join(c.Warnings, "\n")
	for _, want := range []string{
		"the limits differ: token-bucket 100/10s and gcra token-bucket:100/10s (naive)",
		"the load differs: 1000/s poisson over 50 keys, zipf:1.2, and now 2000/s",
		"the rate differs: 1,000/s, and now 2,000/s",
		"the number of keys differs: 50, and now 51",
		"the scenario differs: none, and now boundary",
		"the number of workers differs: 64, and now 1",
		"the implementation differs: script, and now naive",
		"the store differs: redis://localhost:6379/0, and now memory:",
		"the duration differs: 30s, and now 1m",
		"the load generator was the limit",
	} {
		if !strings.Contains(warnings, want) {
			t.Errorf("%q is not in\n%s", want, warnings)
		}
	}
	if _, c := compared(t, DefaultMargins(), func(*report.Run) {}); len(c.Warnings) != 0 || c.Regressions != 0 {
		t.Errorf("of a run and itself it says %+v", c)
	}
}

// counted is a report of 100,000 decisions with the counters of a server.
func counted(roundTrips, commands, bytes float64, others int64) report.Named {
	run := sample.LoadRun("token-bucket", 1, 1, 0)
	run.Allowed, run.Denied, run.Requests, run.Errors = 60_000, 40_000, 100_000, 0
	run.Cost = &report.Cost{RoundTrips: &roundTrips, Commands: &commands, NetworkIn: &bytes, Others: others}
	d := report.New(report.LoadTest)
	d.Runs = []report.Run{run}
	return report.Named{Name: "counted", Document: d}
}

// What a server counts for a decision depends on how many callers shared an exchange. It grows at most as the
// round trips do.
func TestCountersDifferByHowCallersShare(t *testing.T) {
	o := Options{Margins: DefaultMargins()}
	base := []report.Named{counted(0.7377, 2.694, 115.5, 0)}
	for name, test := range map[string]struct {
		bases  []report.Named
		latest report.Named
		want   []string
	}{
		"less is shared":                         {base, counted(0.938, 3.463, 144.8, 0), nil},
		"far less is shared":                     {base, counted(1.5, 2.7, 115.5, 0), []string{"round_trips"}},
		"it runs more, shared as ever":           {base, counted(0.7377, 3.1, 130, 0), []string{"commands", "network_in_bytes"}},
		"it runs more than the sharing explains": {base, counted(0.938, 3.9, 170, 0), []string{"commands", "network_in_bytes"}},
		"nobody shares": {[]report.Named{counted(1, 4, 150, 0)}, counted(1.2, 4.8, 180, 0),
			[]string{"round_trips", "commands", "network_in_bytes"}},
		"three differ as much": {[]report.Named{base[0], counted(0.9, 3.4, 140, 0), counted(0.8, 3, 125, 0)},
			counted(0.99, 3.9, 160, 0), nil},
		"three agree": {[]report.Named{base[0], base[0], counted(0.74, 2.7, 116, 0)}, counted(0.938, 3.463, 144.8, 0),
			[]string{"round_trips", "commands", "network_in_bytes"}},
		"others used it":       {base, counted(0.7377, 9.69, 400, 600), nil},
		"others used the base": {[]report.Named{counted(0.7377, 1, 40, 600)}, counted(0.7377, 2.7, 115.5, 0), nil},
		"others used one base": {[]report.Named{counted(0.7377, 9, 400, 600), base[0]}, counted(0.7377, 3.1, 130, 0),
			[]string{"commands", "network_in_bytes"}},
	} {
		if found := worse(t, test.bases, test.latest, o); !slices.Equal(found, test.want) {
			t.Errorf("%s: %v, want %v", name, found, test.want)
		}
	}
	c, err := Reports(base, counted(0.7377, 9.69, 400, 600), o)
	const want = "token-bucket 100/10s: others used the server in the new run; what it counted is shown, but not judged"
	if err != nil || !slices.Contains(c.Warnings, want) {
		t.Errorf("%v, %v", c, err)
	}
	if c, err = Reports(base, counted(0.7377, 2.694, 115.5, 0), o); err != nil || len(c.Warnings) > 0 {
		t.Errorf("%v, %v", c, err)
	}
}

// What happens once in a run is much for a decision only if there are few of them.
func TestWhatHappensOnceIsNoRegression(t *testing.T) {
	few := func(bytes float64) report.Named {
		n := counted(1, 4, bytes, 0)
		n.Runs[0].Allowed, n.Runs[0].Denied = 600, 400
		return n
	}
	o := Options{Margins: DefaultMargins()}
	if found := worse(t, []report.Named{few(100)}, few(116), o); len(found) > 0 {
		t.Errorf("a script that was loaded: %v", found)
	}
	if found := worse(t, []report.Named{few(100)}, few(117), o); !slices.Equal(found, []string{"network_in_bytes"}) {
		t.Errorf("more than that: %v", found)
	}
}

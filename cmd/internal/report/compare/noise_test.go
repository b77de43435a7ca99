package compare

import (
	"os"
	"slices"
	"testing"

	"github.com/limitctl/limitctl/cmd/internal/report"
)

// recorded is testdata/equal-runs.json: fourteen load tests with the same flags, one after
// the other, on two cores that eight other programs kept busy, so that their p99 differ by
// more than a hundred times; and four with two more limits, which is more work.
func recorded(t *testing.T) (equal, slower []report.Named) {
	t.Helper()
	data, err := os.ReadFile("testdata/equal-runs.json")
	if err != nil {
		t.Fatal(err)
	}
	d, err := report.Read("equal-runs.json", data)
	if err != nil {
		t.Fatal(err)
	}
	for _, run := range d.Runs {
		one := report.New(report.LoadTest)
		one.Runs = []report.Run{run}
		if len(run.Limits) == 1 {
			equal = append(equal, report.Named{Name: "equal", Document: one})
		} else {
			slower = append(slower, report.Named{Name: "slower", Document: one})
		}
	}
	if len(equal) != 14 || len(slower) != 4 {
		t.Fatalf("%d equal runs and %d others", len(equal), len(slower))
	}
	return equal, slower
}

// worse is the metrics that became worse.
func worse(t *testing.T, bases []report.Named, latest report.Named, o Options) (metrics []string) {
	t.Helper()
	c, err := Reports(bases, latest, o)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range c.Runs[0].Differences {
		if d.Verdict == Worse {
			metrics = append(metrics, d.figure.name())
		}
	}
	if (c.Verdict == report.Fail) != (len(metrics) > 0) || c.Regressions != len(metrics) {
		t.Errorf("%s with %d regressions, of %v", c.Verdict, c.Regressions, metrics)
	}
	return metrics
}

// Equal runs do not fail, however noisy the machine: one pair of a hundred may.
func TestEqualRunsAreEqual(t *testing.T) {
	equal, _ := recorded(t)
	o := Options{Margins: DefaultMargins()}
	pairs, failed := 0, 0
	for i := range equal {
		for j := range equal {
			if i == j {
				continue
			}
			pairs++
			if found := worse(t, equal[i:i+1], equal[j], o); len(found) > 0 {
				failed++
				t.Logf("run %d after run %d: %v", j, i, found)
			}
		}
	}
	if failed > pairs/100+1 {
		t.Errorf("%d of %d pairs of equal runs fail", failed, pairs)
	}
	sets, failed := 0, 0
	for i := range equal {
		for j := range equal {
			bases := []report.Named{equal[i], equal[(i+1)%len(equal)], equal[(i+2)%len(equal)]}
			if slices.ContainsFunc(bases, func(b report.Named) bool { return b.Document == equal[j].Document }) {
				continue
			}
			sets++
			if found := worse(t, bases, equal[j], o); len(found) > 0 {
				failed++
				t.Logf("run %d after three from %d: %v", j, i, found)
			}
		}
	}
	if failed > sets/100+1 {
		t.Errorf("%d of %d runs fail after three equal ones", failed, sets)
	}
}

// What is slower is found in the same noise: the server's time after any run of a machine
// as busy, and most latencies after several base runs.
func TestSlowerRunsAreFound(t *testing.T) {
	equal, slower := recorded(t)
	o := Options{Margins: DefaultMargins()}
	calm := equal[:7] // the machine was busier then
	tries, cpu, p50 := 0, 0, 0
	for i := range calm {
		for _, latest := range slower {
			tries++
			bases := []report.Named{calm[i], calm[(i+2)%len(calm)]}
			found := worse(t, bases, latest, o)
			if slices.Contains(found, "server_cpu") {
				cpu++
			}
			if slices.Contains(found, "p50") || slices.Contains(found, "service_p50") {
				p50++
			}
		}
	}
	if cpu < tries*9/10 || p50 < tries/2 {
		t.Errorf("of %d runs with more to do the server's time was found in %d, and the latency in %d", tries, cpu, p50)
	}
}

// What is not named is shown, and not judged.
func TestOnlyWhatIsNamedIsJudged(t *testing.T) {
	equal, slower := recorded(t)
	o := Options{Margins: DefaultMargins(), Only: []string{"commands"}}
	if found := worse(t, equal[:1], slower[0], o); !slices.Equal(found, []string{"commands"}) {
		t.Errorf("%v", found)
	}
	o.Only = []string{"errors"}
	c, err := Reports(equal[:1], slower[0], o)
	if err != nil || c.Verdict != report.Pass {
		t.Errorf("%v, %v", c, err)
	}
	for _, d := range c.Runs[0].Differences {
		if d.Judged != (d.Metric == "errors_percent") || d.Verdict == Better {
			t.Errorf("%+v", d)
		}
	}
}

// One late last answer makes a run longer, and is no regression. Fewer answers in every part of a run are.
func TestALateLastAnswerIsNoRegression(t *testing.T) {
	even := func(perInterval int64, intervals int) (timeline []report.Interval) {
		for range intervals {
			timeline = append(timeline, report.Interval{Allowed: perInterval, P50: 100})
		}
		return timeline
	}
	base := report.New(report.LoadTest)
	base.Runs = []report.Run{{Figures: report.Figures{Latency: &report.Quantiles{P50: 100}, ThroughputPerS: 1000}, Timeline: even(100, 20)}}
	late, slower := even(100, 19), even(90, 20)
	late = append(late, report.Interval{}, report.Interval{}, report.Interval{Denied: 1, P50: 300_000})
	for _, test := range []struct {
		what     string
		timeline []report.Interval
		isWorse  bool
	}{{"a late last answer", late, false}, {"fewer answers", slower, true}} {
		latest := report.New(report.LoadTest)
		latest.Runs = []report.Run{{Figures: report.Figures{Latency: &report.Quantiles{P50: 100}, ThroughputPerS: 900},
			Timeline: test.timeline}}
		found := worse(t, []report.Named{{Name: "base", Document: base}}, report.Named{Name: "new", Document: latest},
			Options{Margins: DefaultMargins()})
		if slices.Contains(found, "throughput") != test.isWorse {
			t.Errorf("%s: %v", test.what, found)
		}
	}
}

package report_test

import (
	"errors"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/limitctl/limitctl/cmd/internal/report"
	"github.com/limitctl/limitctl/cmd/internal/report/sample"
	"github.com/limitctl/limitctl/cmd/internal/report/show"
	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/loadgen/audit"
)

// Saved, read and merged, answers stay apart, and their quantiles are those of all
// requests together.
func TestAnswersByOthersAreSavedAndMerged(t *testing.T) {
	d := sample.Outage()
	data, err := d.Save()
	if err != nil {
		t.Fatal(err)
	}
	again, err := report.Read("outage.json", data)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(again.Runs[0].Figures, d.Runs[0].Figures) {
		t.Errorf("read %+v,\nsaved %+v", again.Runs[0].Figures, d.Runs[0].Figures)
	}
	alone := sample.LoadRun("token-bucket", 1, 1, 0)
	alone.StartedAt = d.Runs[0].StartedAt.Add(time.Second)
	alone.ByDecider = []report.Answers{{"store", alone.Allowed, alone.Denied, alone.Latency}}
	if _, err := report.Merge([]report.Named{{"outage.json", again}, named("alone.json", alone)}); err == nil {
		t.Error("quantiles were merged of which one report has no histogram")
	}
	alone.Histograms.ByDecider = map[string]*hdrhistogram.Histogram{"store": alone.Histograms.Latency}
	merged, err := report.Merge([]report.Named{{"outage.json", again}, named("alone.json", alone)})
	if err != nil {
		t.Fatal(err)
	}
	was, is := &d.Runs[0], &merged.Runs[0]
	if is.Local != 4000 || is.Unguarded != 600 || is.Errors != 200 || !reflect.DeepEqual(is.ErrorLatency, was.ErrorLatency) {
		t.Errorf("merged %+v", is.Figures)
	}
	if got, want := is.By(0), was.By(0); got.Allowed != want.Allowed+alone.Allowed || got.Denied != want.Denied+alone.Denied ||
		is.Histograms.ByDecider["store"].TotalCount() != got.Allowed+got.Denied+30_000-alone.Allowed-alone.Denied {
		t.Errorf("the store answered %+v", got)
	}
	if is.ThroughputPerS != 1000*float64(is.Allowed+is.Denied)/float64(is.DurationMS) {
		t.Errorf("%v/s", is.ThroughputPerS)
	}
}

func named(name string, runs ...report.Run) report.Named {
	d := report.New(report.LoadTest)
	d.Runs = runs
	return report.Named{name, d}
}

// Quantiles of merged runs are those of all requests together: here nine tenths took
// a millisecond, and one tenth, on the other machine, took ten; averages know neither.
func TestMergedQuantilesAreThoseOfAllRequests(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	fast, slow, both := sample.Histogram(random, 9000, 1000, 0), sample.Histogram(random, 1000, 10_000, 0),
		sample.Histogram(random, 0, 1, 0)
	both.Merge(fast)
	both.Merge(slow)
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	a := report.Run{
		Figures: report.Figures{Requests: 9000, Allowed: 9000, DurationMS: 10_000, Latency: report.QuantilesOf(fast)}, StartedAt: start,
		Histograms: &report.Histograms{Latency: fast},
	}
	b := report.Run{
		Figures:   report.Figures{Requests: 1000, Allowed: 900, Errors: 100, DurationMS: 10_000, Latency: report.QuantilesOf(slow)},
		StartedAt: start.Add(2 * time.Second), Histograms: &report.Histograms{Latency: slow},
	}
	merged, err := report.Merge([]report.Named{named("a", a), named("b", b)})
	if err != nil {
		t.Fatal(err)
	}
	r := merged.Runs[0]
	if *r.Latency != *report.QuantilesOf(both) || r.Service != nil {
		t.Errorf("merged %+v, want %+v", r.Latency, report.QuantilesOf(both))
	}
	if r.Requests != 10_000 || r.Allowed != 9900 || r.Errors != 100 || !r.StartedAt.Equal(start) || r.DurationMS != 12_000 ||
		r.ThroughputPerS != 825 {
		t.Errorf("merged: %+v", r)
	}
	if total := r.Histograms.Latency.TotalCount(); total != 10_000 {
		t.Errorf("the merged histogram has %d", total)
	}
	if fast.TotalCount() != 9000 {
		t.Errorf("merging changed a histogram that was merged: it has %d", fast.TotalCount())
	}
	// So that merging goes on: all with a third machine is as all at once.
	three, err := report.Merge([]report.Named{named("ab", r), named("c", b)})
	if err != nil || three.Runs[0].Requests != 11_000 {
		t.Errorf("%v", err)
	}
}

// What was sent to warm up is in no count, so its time is in no rate.
func TestRatesAreOfTheTimeThatCounts(t *testing.T) {
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	a := report.Run{Figures: report.Figures{Requests: 5000, Allowed: 5000, DurationMS: 10_000, WarmupMS: 5000}, StartedAt: start}
	b := a
	b.StartedAt = start.Add(time.Second)
	merged, err := report.Merge([]report.Named{named("a", a), named("b", b)})
	if err != nil {
		t.Fatal(err)
	}
	// The one that began first was counted first: from 5 s on, until 11 s.
	r := &merged.Runs[0]
	if r.WarmupMS != 5000 || r.DurationMS != 11_000 || r.ThroughputPerS != 10_000.0/6 {
		t.Errorf("merged: %+v", r)
	}
	e, err := report.ParseThreshold("rate==1000")
	if err != nil {
		t.Fatal(err)
	}
	if ok, actual, err := e.Holds(&a.Figures); !ok || err != nil {
		t.Errorf("5000 requests in the last 5 of 10 seconds are %s a second, %v", actual, err)
	}
	d := &report.Document{Kind: report.LoadTest, Runs: []report.Run{a}}
	if text := sample.Printed(show.Answer{Report: d}, 0); !strings.Contains(text, ", for 10s, of which 5s to warm up, on\n") {
		t.Errorf("it is %q", text)
	}
}

func TestMergedAudit(t *testing.T) {
	sums := func(units ...float64) *report.KeySums {
		k := report.KeySums{Keys: int64(len(units))}
		for _, u := range units {
			k.Sum += u
			k.SumOfSquares += u * u
		}
		return &k
	}
	audit := func(worst float64, over, run int64, k *report.KeySums) report.Audit {
		return report.Audit{
			Totals:           audit.Totals{WorstRatio: worst, WorstUnits: int64(100 * worst), OverAdmitted: over, UnderAdmitted: over + 1},
			LongestDenialRun: run,
			KeySums:          k,
			Fairness:         k.Fairness(),
		}
	}
	// Each machine was fair to its own keys, and yet the keys of one had three times
	// what those of the other had: (4×10+4×30)²/(8×(4×100+4×900)) is 0.8.
	one, other := report.Run{Figures: report.Figures{
		Requests: 40, Audit: audit(1, 2, 30, sums(10, 10, 10, 10)),
	}}, report.Run{Figures: report.Figures{Requests: 120, Audit: audit(1.5, 3, 20, sums(30, 30, 30, 30))}}
	merged, err := report.Merge([]report.Named{named("a", one), named("b", other)})
	if err != nil {
		t.Fatal(err)
	}
	a := merged.Runs[0].Audit
	if a.WorstRatio != 1.5 || a.WorstUnits != 150 || a.OverAdmitted != 5 || a.UnderAdmitted != 7 || a.LongestDenialRun != 30 ||
		a.Fairness != 0.8 || a.FairnessUnknown {
		t.Errorf("merged: %+v", a)
	}
	other.Audit.KeySums = nil
	merged, err = report.Merge([]report.Named{named("a", one), named("b", other)})
	if err != nil {
		t.Fatal(err)
	}
	if a := merged.Runs[0].Audit; !a.FairnessUnknown || a.Fairness != 0 || a.KeySums != nil {
		t.Errorf("without sums: %+v", a)
	}
	if text := sample.Printed(show.Answer{Report: merged}, 0); !strings.Contains(text, "; fairness is not known") {
		t.Errorf("it prints\n%s", text)
	}
}

// Timelines are added up by the time of day, not by the time since each began.
func TestMergedTimelines(t *testing.T) {
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	timeline := []report.Interval{{OffsetMS: 0, Allowed: 1, P99: 10, Max: 20}, {OffsetMS: 1000, Allowed: 10, Denied: 5, P99: 30, Max: 40}}
	a := report.Run{StartedAt: start.Add(time.Second), Figures: report.Figures{DurationMS: 2000}, IntervalMS: 1000, Timeline: timeline}
	b := report.Run{StartedAt: start, Figures: report.Figures{DurationMS: 2000}, IntervalMS: 1000, Timeline: timeline}
	merged, err := report.Merge([]report.Named{named("a", a), named("b", b)})
	if err != nil {
		t.Fatal(err)
	}
	r := merged.Runs[0]
	want := []report.Interval{
		{OffsetMS: 0, Allowed: 1, P99: 10, Max: 20}, {OffsetMS: 1000, Allowed: 11, Denied: 5, P99: 30, Max: 40},
		{OffsetMS: 2000, Allowed: 10, Denied: 5, P99: 30, Max: 40},
	}
	if len(r.Timeline) != 3 || r.Timeline[0] != want[0] || r.Timeline[1] != want[1] || r.Timeline[2] != want[2] || len(r.Warnings) != 0 {
		t.Errorf("merged: %+v, %q", r.Timeline, r.Warnings)
	}
	b.StartedAt = start.Add(-time.Minute)
	merged, err = report.Merge([]report.Named{named("a", a), named("b", b)})
	if err != nil || len(merged.Runs[0].Warnings) != 1 ||
		merged.Runs[0].Warnings[0] != "a began 59s after b had ended: they did not load the store together" {
		t.Errorf("apart: %q, %v", merged.Runs[0].Warnings, err)
	}
}

func TestMergedKeysAndErrors(t *testing.T) {
	a := report.Run{
		Figures: report.Figures{Keys: 3, KeysDenied: 2}, MostDenied: []report.KeyCount{{"u:1", 1, 9}, {"u:2", 1, 5}},
		ErrorTexts: []report.ErrorCount{{"x", 1}, {"y", 3}},
	}
	b := report.Run{
		Figures: report.Figures{Keys: 4, KeysDenied: 1}, MostDenied: []report.KeyCount{{"v:1", 1, 8}, {"u:2", 2, 6}},
		ErrorTexts: []report.ErrorCount{{"x", 5}},
	}
	for i := range int64(150) {
		a.Heat = append(a.Heat, report.HeatGroup{Keys: 2, Allowed: 2 * (300 - i)})
		b.Heat = append(b.Heat, report.HeatGroup{Keys: 1, Allowed: 100, Denied: 50 - min(i, 50)})
	}
	merged, err := report.Merge([]report.Named{named("a", a), named("b", b)})
	if err != nil {
		t.Fatal(err)
	}
	r := merged.Runs[0]
	if r.Keys != 7 || r.KeysDenied != 3 || len(r.MostDenied) != 3 || r.MostDenied[0] != (report.KeyCount{"u:2", 3, 11}) ||
		r.ErrorTexts[0] != (report.ErrorCount{"x", 6}) {
		t.Errorf("merged: %+v %+v", r.MostDenied, r.ErrorTexts)
	}
	keys, denied := int64(0), int64(0)
	for _, g := range r.Heat {
		keys, denied = keys+g.Keys, denied+g.Denied
	}
	if len(r.Heat) > 200 || keys != 450 || denied != 1275 || r.Heat[0].Allowed != 2*300+2*299 {
		t.Errorf("%d groups of %d keys, %d denied, the first %+v", len(r.Heat), keys, denied, r.Heat[0])
	}
}

// Thresholds are held against the whole: here each machine kept its promise, and
// together they did not.
func TestThresholdsAreHeldAgainstTheMerged(t *testing.T) {
	run := report.Run{Figures: report.Figures{Requests: 100, DurationMS: 1000, Audit: report.Audit{Totals: audit.Totals{OverAdmitted: 3}}}}
	a, b := named("a", run), named("b", run)
	sample.Promised(a.Document, "over_admitted<=5", "fairness>=0")
	sample.Promised(b.Document, "over_admitted<=5")
	merged, err := report.Merge([]report.Named{a, b})
	if err != nil || len(merged.Thresholds) != 1 || merged.Thresholds[0].OK || merged.Thresholds[0].Actual != "6" {
		t.Errorf("%+v, %v", merged.Thresholds, err)
	}
	if warnings := merged.Runs[0].Warnings; len(warnings) != 1 || !strings.Contains(warnings[0], `threshold "fairness>=0" is not judged`) {
		t.Errorf("%q", warnings)
	}
}

func TestWhatCannotBeMerged(t *testing.T) {
	run, simulated := sample.LoadRun("token-bucket", 1, 1, 0), sample.Simulation()
	bare, partly, other, another := run, run, run, run
	bare.Histograms = nil
	partly.Histograms = &report.Histograms{Service: run.Histograms.Service, Lag: run.Histograms.Lag}
	other.Limit = "5/1s"
	another.Limits = nil
	for want, all := range map[string][]report.Named{
		"b has no histograms, without which quantiles cannot be merged; give the report that loadtest wrote with --save": {
			named("a", run), named("b", bare),
		},
		"c has no histograms, without which":                                      {named("a", run), named("c", partly)},
		`run 1 is of "token-bucket 100/10s" in a and of "token-bucket 5/1s" in b`: {named("a", run), named("b", other)},
		"run 1 has 1 limits in a and 0 in b":                                      {named("a", run), named("b", another)},
		"a has 1 run and b has 2 runs":                                            {named("a", run), named("b", run, run)},
		"s is a simulation; only load tests are merged":                           {{"s", simulated}, {"s2", simulated}},
	} {
		merged, err := report.Merge(all)
		if merged != nil || !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

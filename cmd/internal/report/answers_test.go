package report

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// What others than the limit answered is shown apart: in the words, in a table of its own
// with its own latency, over time, and on the page.
func TestAnswersByOthersAreShownApart(t *testing.T) {
	d := outage()
	text := printed(d, 0)
	for _, want := range []string{
		"4,000 decided locally", "600 unguarded", "200 failed (0.6%)",
		"✗ the failure policy answered 600 requests, because the store was away (1.7%): 600 let in, 0 turned away",
		"! a local share of the limit decided 4,000 requests, because the store was away (11%)",
		"DECIDED BY", "denial-memory",
		"\nlocal      ····················█", "\nerrors     ····················▁",
		"✓ local_p99<1ms", "✓ unguarded<=2%",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	row := ""
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "failure-policy") {
			row = line
		}
	}
	if fields := strings.Fields(row); len(fields) < 5 || fields[1] != "600" || fields[2] != "600" || fields[3] != "0" || fields[5] != "ms" {
		t.Errorf("the failure policy's row is %q", row)
	}
	var page strings.Builder
	if err := d.HTML(&page); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"Who decided", `<path class="local"`, `<path class="unguarded"`, `<span class="key local">`, "denial-memory",
	} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("%q is missing on the page", want)
		}
	}
	if sound := printed(oneRun(), 0); strings.Contains(sound, "DECIDED BY") || strings.Contains(sound, "\nlocal") {
		t.Errorf("a run that the store alone decided shows others:\n%s", sound)
	}
}

// Saved, read and merged, answers stay apart, and their quantiles are those of all
// requests together.
func TestAnswersByOthersAreSavedAndMerged(t *testing.T) {
	d := outage()
	data, err := d.Save()
	if err != nil {
		t.Fatal(err)
	}
	again, err := Read("outage.json", data)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(again.Runs[0].Figures, d.Runs[0].Figures) {
		t.Errorf("read %+v,\nsaved %+v", again.Runs[0].Figures, d.Runs[0].Figures)
	}
	alone := loadRun("token-bucket", 1, 1, 0)
	alone.StartedAt = d.Runs[0].StartedAt.Add(time.Second)
	alone.ByDecider = []Answers{{"store", alone.Allowed, alone.Denied, alone.Latency}}
	if _, err := Merge([]Named{{"outage.json", again}, named("alone.json", alone)}); err == nil {
		t.Error("quantiles were merged of which one report has no histogram")
	}
	alone.Histograms.ByDecider = map[string]*hdrhistogram.Histogram{"store": alone.Histograms.Latency}
	merged, err := Merge([]Named{{"outage.json", again}, named("alone.json", alone)})
	if err != nil {
		t.Fatal(err)
	}
	was, is := &d.Runs[0], &merged.Runs[0]
	if is.Local != 4000 || is.Unguarded != 600 || is.Errors != 200 || !reflect.DeepEqual(is.ErrorLatency, was.ErrorLatency) {
		t.Errorf("merged %+v", is.Figures)
	}
	if got, want := is.by(0), was.by(0); got.Allowed != want.Allowed+alone.Allowed || got.Denied != want.Denied+alone.Denied ||
		is.Histograms.ByDecider["store"].TotalCount() != got.Allowed+got.Denied+30_000-alone.Allowed-alone.Denied {
		t.Errorf("the store answered %+v", got)
	}
	if is.ThroughputPerS != 1000*float64(is.Allowed+is.Denied)/float64(is.DurationMS) {
		t.Errorf("%v/s", is.ThroughputPerS)
	}
}

// A file that says that more was answered than asked for is damaged.
func TestMoreAnswersThanRequestsAreDamage(t *testing.T) {
	d := outage()
	d.Runs[0].Unguarded += 1
	data, err := d.Save()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Read("outage.json", data); err == nil || !strings.Contains(err.Error(), "answers") {
		t.Errorf("%v", err)
	}
}

// Of errors that there were not, what is promised at most holds, and what is promised at
// least does not.
func TestPromisesAboutWhatThereWasNot(t *testing.T) {
	d := oneRun()
	promised(d, "error_p99<1s", "local_max<=1ms", "unguarded==0", "error_p99>1ms")
	for i, want := range []bool{true, true, true, false} {
		if got := d.Thresholds[i]; got.OK != want {
			t.Errorf("%+v", got)
		}
	}
}

// A comparison tells of answers by others: unguarded ones are a regression.
func TestComparisonTellsOfAnswersByOthers(t *testing.T) {
	c, err := Compare([]Named{{"sound", oneRun()}}, Named{"outage", outage()}, CompareOptions{Margins: DefaultMargins()})
	if err != nil {
		t.Fatal(err)
	}
	verdicts := map[string]Verdict{}
	for _, d := range c.Runs[0].Differences {
		verdicts[d.Metric] = d.Verdict
	}
	if verdicts["unguarded_percent"] != Worse || verdicts["errors_percent"] != Worse || verdicts["local_percent"] != Changed {
		t.Errorf("%v", verdicts)
	}
}

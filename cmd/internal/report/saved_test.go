package report

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

// small is a run as it fits a file that people read.
func small(algorithm string, seed uint64) Run {
	run := loadRun(algorithm, seed, 1, 0)
	run.IntervalMS = 5000
	var timeline []Interval
	for _, c := range run.columnsOf(12) {
		timeline = append(timeline, c.Interval)
	}
	run.Timeline, run.Heat, run.MostDenied = timeline, run.Heat[:4], run.MostDenied[:2]
	return run
}

// saved are the files in testdata that commands are tried with.
func saved() map[string]*Document {
	document := func(runs ...Run) *Document {
		d := New(LoadTest)
		d.Runs = runs
		return d
	}
	later := small("token-bucket", 1)
	later.StartedAt = later.StartedAt.Add(1500 * time.Millisecond)
	worse := small("token-bucket", 7)
	worse.Audit.OverAdmitted, worse.Audit.WorstWindowRatio, worse.Rate, worse.Load = 3, 1.03, 2000, "2000/s poisson over 50 keys, zipf:1.2"
	worse.Limits[0].Audit = worse.Audit
	for i := range worse.Timeline {
		interval := &worse.Timeline[i]
		interval.P50, interval.P99, interval.Max = 2*interval.P50, 2*interval.P99, 2*interval.Max
	}
	noisy := small("token-bucket", 1)
	noisy.Latency.P99 += noisy.Latency.P99 / 20
	return map[string]*Document{
		"run.json":       promised(document(small("token-bucket", 1)), "p99<5ms", "over_admitted==0"),
		"base.json":      document(small("token-bucket", 1)),
		"new.json":       document(noisy),
		"worse.json":     document(worse),
		"machine-a.json": promised(document(small("token-bucket", 1)), "p99<5ms"),
		"machine-b.json": promised(document(later), "p99<5ms"),
	}
}

// What is saved is read again as it was, histograms included.
func TestSavedReports(t *testing.T) {
	for name, d := range saved() {
		data, err := d.Save()
		if err != nil {
			t.Fatal(err)
		}
		golden := filepath.Join("testdata", name)
		if *update {
			if err := os.WriteFile(golden, data, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil || !bytes.Equal(data, want) {
			t.Errorf("%s is not what is saved now (%v); -update writes it", name, err)
		}
		again, err := Read(name, data)
		if err != nil {
			t.Fatal(err)
		}
		if twice, err := again.Save(); err != nil || !bytes.Equal(twice, data) {
			t.Errorf("%s is saved as something else after it was read (%v)", name, err)
		}
		for i := range again.Runs {
			got, want := again.Runs[i].Histograms, d.Runs[i].Histograms
			if !got.Latency.Equals(want.Latency) || !got.Service.Equals(want.Service) || !got.Lag.Equals(want.Lag) {
				t.Errorf("%s: run %d has other histograms after it was read", name, i)
			}
			again.Runs[i].Histograms = want // the library's own fields differ
		}
		if !reflect.DeepEqual(again, d) {
			t.Errorf("%s is read as something else", name)
		}
	}
}

func TestReadSaysWhatIsWrong(t *testing.T) {
	good, err := oneRun().Save()
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ data, want string }{
		{"", "x.json is empty"},
		{" \n", "x.json is empty"},
		{string(good[:len(good)/2]), "x.json ends in the middle of its JSON"},
		{"hello", "x.json is not a report: invalid character"},
		{"[]", "x.json is not a report: "},
		{"{}", "x.json is JSON, but not a report"},
		{`{"schema_version":1,"keys":[]}`, "x.json is JSON, but not a report"},
		{`{"schema_version":2,"kind":"loadtest","runs":[]}`, "x.json has schema_version 2, and this limitctl reads 1"},
		{`{"schema_version":1,"kind":"loadtest","runs":[{"requests":"many"}]}`, "x.json is not a report: "},
		{`{"schema_version":1,"kind":"loadtest","runs":[],"thresholds":[{"run":1}]}`, "x.json is not a report: threshold"},
		{
			`{"schema_version":1,"kind":"loadtest","runs":[{},{"requests":-1}]}`,
			"x.json is not a report: run 2 is damaged: -1 is out of range for a count or a time",
		},
		{
			`{"schema_version":1,"kind":"loadtest","runs":[{"requests":1,"allowed":2}]}`,
			"x.json is not a report: run 1 is damaged: 1 requests had 2 answers",
		},
		{`{"schema_version":1,"kind":"loadtest","runs":[{"duration_ms":9e12}]}`, "x.json is not a report: "},
		{
			`{"schema_version":1,"kind":"loadtest","runs":[{"keys":1,"keys_denied":2}]}`,
			"x.json is not a report: run 1 is damaged: of 1 keys 2 were denied",
		},
		{
			`{"schema_version":1,"kind":"loadtest","runs":[{"interval_ms":1,"timeline":[{"offset_ms":5},{"offset_ms":5}]}]}`,
			"x.json is not a report: run 1 is damaged: its timeline",
		},
		{`{"schema_version":1,"kind":"loadtest","runs":[{"histograms":{"latency_us":"AAAA"}}]}`,
			"x.json is not a report: the histogram of its latency cannot be read: "},
		{`{"schema_version":1,"kind":"loadtest","runs":[{"histograms":{"service_us":"!"}}]}`,
			"x.json is not a report: the histogram of its service time cannot be read: "},
		{`{"schema_version":1,"kind":"loadtest","runs":[{"histograms":{"schedule_lag_us":"HISTFAAAAB"}}]}`,
			"x.json is not a report: the histogram of its schedule lag cannot be read: "},
		{`{"schema_version":1,"kind":"loadtest","runs":[{"histograms":{"latency_us":7}}]}`, "x.json is not a report: "},
		{string(good) + "{}", "x.json goes on after its report"},
	} {
		d, err := Read("x.json", []byte(test.data))
		if err == nil || !strings.HasPrefix(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%.40q: %v, want %s…", test.data, err, test.want)
		}
		if d != nil {
			t.Errorf("%.40q: there is a document beside the error", test.data)
		}
	}
}

// Histograms are for files: what is printed has none, and the document keeps its own.
func TestPrintedDocumentsHaveNoHistograms(t *testing.T) {
	d := fiveRuns()
	for _, value := range append(d.Lines(), d.Document()) {
		text, err := json.Marshal(value)
		if err != nil || bytes.Contains(text, []byte("histograms")) {
			t.Errorf("printed: %.200s (%v)", text, err)
		}
	}
	if d.Runs[0].Histograms == nil {
		t.Error("printing took the histograms away")
	}
}

// Whatever a file holds, it is a document that can be shown, compared and merged, or
// an error in one line.
func FuzzRead(f *testing.F) {
	for name, d := range saved() {
		data, err := d.Save()
		if err != nil {
			f.Fatal(name, err)
		}
		f.Add(data)
	}
	f.Add([]byte(`{"schema_version":1,"kind":"loadtest","runs":[` +
		`{"timeline":[{"offset_ms":-9223372036854775808},{"offset_ms":9223372036854775807}],"interval_ms":-1,"heat":[{"keys":-1}]}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		d, err := Read("x.json", data)
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("%q", err)
			}
			return
		}
		printed(d, 80)
		d.Records()
		if err := d.HTML(io.Discard); err != nil {
			t.Error(err)
		}
		if c, err := Compare([]Named{{"a", d}}, Named{"b", d}, CompareOptions{Margins: DefaultMargins()}); err == nil {
			printed(c, 80)
			if c.Regressions != 0 {
				t.Errorf("a report is worse than itself: %+v", c)
			}
		}
		if merged, err := Merge([]Named{{"a", d}, {"b", d}}); err == nil {
			printed(merged, 40)
		}
	})
}

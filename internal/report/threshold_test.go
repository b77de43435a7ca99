package report

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/loadgen"
	"github.com/limitctl/limitctl/pkg/loadgen/audit"
)

// parsed reads a promise that is right.
func parsed(t *testing.T, text string) Expression {
	t.Helper()
	e, err := ParseThreshold(text)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestThresholds(t *testing.T) {
	figures := &Run{Result: loadgen.Result{
		Requests: 1000, Allowed: 990, Denied: 10, Errors: 0, Dropped: 1000, Keys: 300, KeysDenied: 3, DurationMS: 2000,
		Late: 2, TimedOut: 3,
		ThroughputPerS: 499.5,
		Latency:        &loadgen.Quantiles{P50: 800, P90: 1500, P99: 5000, P999: 9999, Max: 1_500_000},
		Service:        &loadgen.Quantiles{P99: 4999},
		Audit: loadgen.Audit{Totals: audit.Totals{WorstRatio: 1.97, OverAdmitted: 3, UnderAdmitted: 4},
			Fairness: 0.1},
	}}
	for _, test := range []struct {
		text   string
		ok     bool
		actual string
	}{
		{"p99<5ms", false, "5ms"},
		{"p99<=5ms", true, "5ms"},
		{"p99<=5000us", true, "5000us"}, {"p99<1m", true, "0.005s"},
		{"p99<=4999.999us", false, "5000us"},
		{"service_p99<5ms", true, "4.999ms"},
		{"p50==0.8ms", true, "0.8ms"},
		{"max>1s", true, "1.5s"},
		{"p999!=9.999ms", false, "9.999ms"},
		{"denied<1%", false, "1%"},
		{"denied<=1%", true, "1%"},
		{"allowed>=99%", true, "99%"},
		{"denied_keys<=1%", true, "1%"},
		{"dropped==50%", true, "50%"}, // of the arrivals
		{"errors==0%", true, "0%"},
		{"late<5", false, "5"},
		{"worst_window_ratio<=1.97", true, "1.97"},
		{"throughput>=499.5", true, "499.5"},
		{"rate==500", true, "500"},
	} {
		e, err := ParseThreshold(test.text)
		if err != nil {
			t.Errorf("%s: %v", test.text, err)
			continue
		}
		ok, actual, err := e.Holds(figures)
		if err != nil || ok != test.ok || actual != test.actual {
			t.Errorf("%s: %t, %s, %v; want %t, %s", test.text, ok, actual, err, test.ok, test.actual)
		}
	}
}

// What is shown lies on the side of the bound that decided, and of nothing all shares are 0.
func TestSharesAreExact(t *testing.T) {
	many := &Run{Result: loadgen.Result{Requests: 10_000_000, Denied: 100_001}}
	if ok, actual, err := parsed(t, "denied<=1%").Holds(many); err != nil || ok || actual != "1.00001%" {
		t.Errorf("%t, %s, %v", ok, actual, err)
	}
	if ok, actual, err := parsed(t, "denied<1%").Holds(new(Run)); err != nil || !ok || actual != "0%" {
		t.Errorf("of nothing: %t, %s, %v", ok, actual, err)
	}
	for tenths := range int64(1000) { // of a percent
		e := parsed(t, fmt.Sprintf("denied==%d.%d%%", tenths/10, tenths%10))
		if ok, _, _ := e.Holds(&Run{Result: loadgen.Result{Requests: 3000, Denied: 3 * tenths}}); !ok {
			t.Errorf("%s is not exact", e)
		}
	}
}

func TestWrongThresholds(t *testing.T) {
	for text, want := range map[string]string{
		"":                                       "write a metric, one of",
		"p99=5ms":                                "write a metric, one of",
		"p98<5ms":                                `unknown metric "p98"; write one such as p95, p99, service_p99, errors, denied, `,
		"<5ms":                                   `unknown metric ""; write one such as p95`,
		"p99<5":                                  `"5" is not a value of p99; write a time in us, ms or s, such as 5ms`,
		"p99<5%":                                 `"5%" is not a value of p99`,
		"p99<ms":                                 `"ms" is not a value of p99`,
		"p99<-5ms":                               `"-5ms" is not a value of p99`,
		"p99<1e9ms":                              `"1e9ms" is not a value of p99`,
		"p99<1/2ms":                              `is not a value of p99`,
		"over_admitted==0%":                      `"0%" is not a value of over_admitted; write a whole number such as 100`,
		"requests>5%":                            `"5%" is not a value of requests`,
		"denied<1.5":                             `"1.5" is not a value of denied; write a whole number`,
		"denied<200%":                            `"200%" is not a percentage from 0% to 100%; write one such as 1%`,
		"throughput>1000/s":                      `"1000/s" is not a value of throughput; write a number such as 1.5`,
		"denied<1" + "0000000000000000000000000": "is not a value of denied",
	} {
		_, err := ParseThreshold(text)
		if !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(),
			"threshold \"") ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

// A promise about what a simulation does not have is neither kept nor missed. Of errors that there were not, what is
// promised at most holds. A load test that got no answer did not keep what was promised of its times.
func TestAbsentMetrics(t *testing.T) {
	for text, want := range map[string]string{
		"p99<5ms": "false nothing was measured", "error_p99<1s": "true none", "error_max<=1ms": "true none",
		"error_p99>1ms": "false nothing was measured", "errors==0": "true 0",
	} {
		d := New(LoadTest)
		d.Runs = []Run{{Result: loadgen.Result{Requests: 10}}}
		got := Promised(d, text).Thresholds[0]
		if fmt.Sprint(got.OK, " ", got.Actual) != want || d.Failed(true, false) == got.OK {
			t.Errorf("%s: %+v, want %s", text, got, want)
		}
	}
	for _, metric := range []string{"p99<5ms", "service_p99<20ms"} {
		d := New(Simulation)
		d.Runs = []Run{{}}
		name, _, _ := strings.Cut(metric, "<")
		err := d.Evaluate([]Expression{parsed(t, metric)})
		if !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), "the run has no "+name) {
			t.Errorf("%s: %v", metric, err)
		}
	}
}

// A generator that is the limit decides times and rates, so that no promise of them is judged, unless the service alone
// took longer, or even the time with the delay is short enough. Others are.
func TestPromisesWhenTheGeneratorWasTheLimit(t *testing.T) {
	for text, want := range map[string]string{
		"p99<5ms": "kept", "p99<1.2ms": "unknown", "p99<1us": "missed", "service_p99<1us": "missed",
		"late<=0": "unknown", "late<9": "kept",
		"error_p99<1us": "unknown",
		"p99>1s":        "unknown", "p50<1s": "unknown", "service_p99<5ms": "unknown",
		"lag_p99<1us": "unknown", "throughput>1": "kept", "throughput<2000": "unknown", "rate>=1000000": "unknown",
		"over_admitted==0": "kept", "denied<1%": "missed", "dropped<1": "missed",
	} {
		d := New(LoadTest)
		run := oneRun().Runs[0]
		run.GeneratorLimited, run.Late, run.ErrorLatency = true, 5, run.Latency
		if text == "dropped<1" || text == "p50<1s" {
			run.Dropped = 5
		}
		d.Runs = []Run{run}
		Promised(d, text)
		got := "missed"
		if one := d.Thresholds[0]; one.OK {
			got = "kept"
		} else if one.NotJudged != "" {
			got = "unknown"
		}
		if got != want || d.Failed(true, false) != (want == "missed") {
			t.Errorf("%s: %s, want %s: %+v", text, got, want, d.Thresholds)
		}
	}
}

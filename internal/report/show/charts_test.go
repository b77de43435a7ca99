package show

import (
	"math"
	"testing"

	"github.com/limitctl/limitctl/internal/report"
	"github.com/limitctl/limitctl/internal/report/sample"
)

// However long a run, its chart has no more columns than can be seen, nothing is
// lost in them, and the worst latency stays.
func TestColumns(t *testing.T) {
	for _, n := range []int{1, 120, 121, 3600} {
		run := &report.Run{IntervalMS: 1000}
		for i := range int64(n) {
			run.Timeline = append(run.Timeline, report.Interval{OffsetMS: i * 1000, Allowed: 1, Denied: 2, Errors: 3, Dropped: 4, Max: i})
		}
		columns := columnsOf(run, 120)
		var sum column
		for i, c := range columns {
			sum.Allowed += c.Allowed
			sum.Denied += c.Denied
			sum.Errors += c.Errors
			sum.Dropped += c.Dropped
			sum.Max = max(sum.Max, c.Max)
			if rate := c.rate(report.LoadTest, c.Allowed); rate != 1 || c.OffsetMS != int64(i)*c.width.Milliseconds() {
				t.Errorf("of %d: column %d begins at %d ms, with %v a second", n, i, c.OffsetMS, rate)
			}
		}
		m := int64(n)
		want := report.Interval{Allowed: m, Denied: 2 * m, Errors: 3 * m, Dropped: 4 * m, Max: m - 1}
		if len(columns) > 120 || sum.Interval != want {
			t.Errorf("of %d intervals: %d columns, in all %+v", n, len(columns), sum)
		}
	}
}

// The curve passes through the quantiles, and ends at the maximum.
func TestCurve(t *testing.T) {
	d := sample.OneRun()
	h := d.Runs[0].Histograms.Latency
	curve, want := curveOf(h), map[float64]int64{1: d.Runs[0].Latency.P90, 2: d.Runs[0].Latency.P99, 3: d.Runs[0].Latency.P999}
	for _, c := range curve {
		if value, is := want[c.nines]; is {
			delete(want, c.nines)
			if c.value != value {
				t.Errorf("at %v nines it is %d, want %d", c.nines, c.value, value)
			}
		}
	}
	last := curve[len(curve)-1]
	if len(want) > 0 || last.value != h.Max() || math.Abs(last.nines-math.Log10(30_000)) > 1e-9 {
		t.Errorf("it ends at %+v, and has not %v", last, want)
	}
}

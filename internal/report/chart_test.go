package report

import (
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/loadgen"
)

// Axes hold what they are for, and have some ticks in order, but not many.
func TestAxes(t *testing.T) {
	check := func(what any, ticks []tick, most int) {
		t.Helper()
		if len(ticks) < 2 || len(ticks) > most {
			t.Errorf("%v: %d ticks: %v", what, len(ticks), ticks)
		}
		for i, tick := range ticks {
			outside := tick.At < -1e-9 || tick.At > 1+1e-9
			if outside || i > 0 && (tick.At <= ticks[i-1].At || tick.Label == ticks[i-1].Label) {
				t.Errorf("%v: tick %d of %v", what, i, ticks)
			}
		}
	}
	for _, top := range []float64{0, 0.003, 1, 7, 10, 11, 999, 1000, 123_456, 9.9e9} {
		axis, ticks := linearAxis(top)
		check(top, ticks, 7)
		if axis < top || top > 0 && axis > 2*top+1e-9 {
			t.Errorf("an axis to %v for %v", axis, top)
		}
	}
	for _, least := range []int64{0, 1, 3, 99, 5000} {
		for _, most := range []int64{least, least + 1, 10 * (least + 1), 3_600_000_000} {
			at, ticks := logAxis(least, most)
			check([]int64{least, most}, ticks, 11)
			if at(least) < 0 || at(most) > 1+1e-9 || at(most) < at(least) {
				t.Errorf("from %d to %d: at %v and %v", least, most, at(least), at(most))
			}
		}
	}
	for _, length := range []time.Duration{
		3 * time.Millisecond, time.Second, 30 * time.Second, 61 * time.Second, time.Hour, 84 * time.Hour,
		1000 * 24 * time.Hour,
	} {
		ticks, _ := timeAxis(length)
		check(length, ticks, 12)
	}
}

// However long a run, its chart has no more columns than can be seen, nothing is
// lost in them, and the worst latency stays.
func TestColumns(t *testing.T) {
	for _, n := range []int{1, 120, 121, 3600} {
		run := &Run{Result: loadgen.Result{IntervalMS: 1000}}
		for i := range int64(n) {
			run.Timeline = append(run.Timeline, loadgen.Interval{OffsetMS: i * 1000, Allowed: 1, Denied: 2, Errors: 3,
				Dropped: 4, Max: i})
		}
		columns := columnsOf(run, 120)
		var sum column
		for i, c := range columns {
			sum.Allowed += c.Allowed
			sum.Denied += c.Denied
			sum.Errors += c.Errors
			sum.Dropped += c.Dropped
			sum.Max = max(sum.Max, c.Max)
			if rate := c.rate(LoadTest, c.Allowed); rate != 1 || c.OffsetMS != int64(i)*c.width.Milliseconds() {
				t.Errorf("of %d: column %d begins at %d ms, with %v a second", n, i, c.OffsetMS, rate)
			}
		}
		m := int64(n)
		want := loadgen.Interval{Allowed: m, Denied: 2 * m, Errors: 3 * m, Dropped: 4 * m, Max: m - 1}
		if len(columns) > 120 || sum.Interval != want {
			t.Errorf("of %d intervals: %d columns, in all %+v", n, len(columns), sum)
		}
	}
}

package report

import (
	"testing"

	"github.com/limitctl/limitctl/pkg/loadgen"
)

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

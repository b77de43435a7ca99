package chart

import (
	"strconv"
	"testing"
	"time"
)

// Axes hold what they are for, and have some ticks in order, but not many.
func TestAxes(t *testing.T) {
	check := func(what any, ticks []Tick, most int) {
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
		axis, ticks := Linear(top, 5)
		check(top, ticks, 6)
		if axis < top || top > 0 && axis > 2*top+1e-9 {
			t.Errorf("an axis to %v for %v", axis, top)
		}
	}
	for _, least := range []int64{0, 1, 3, 99, 5000} {
		for _, most := range []int64{least, least + 1, 10 * (least + 1), 3_600_000_000} {
			micros := func(us int64) string { return strconv.FormatInt(us, 10) }
			axis := NewLogarithmic(least, most, micros)
			check([]int64{least, most}, axis.Ticks, 11)
			if axis.At(least) < 0 || axis.At(most) > 1+1e-9 || axis.At(most) < axis.At(least) {
				t.Errorf("from %d to %d: at %v and %v", least, most, axis.At(least), axis.At(most))
			}
		}
	}
	for _, length := range []time.Duration{
		3 * time.Millisecond, time.Second, 30 * time.Second, 61 * time.Second, time.Hour, 84 * time.Hour, 1000 * 24 * time.Hour,
	} {
		check(length, Time(length, 6), 7)
	}
}

package chart

import (
	"math"
	"time"

	"github.com/limitctl/limitctl/internal/output"
)

// Linear returns an axis from 0 to at least top, with about that many ticks: the value at
// its end, and the ticks.
func Linear(top float64, about int) (end float64, ticks []Tick) {
	if top <= 0 {
		top = 1
	}
	step := math.Pow(10, math.Floor(math.Log10(top/float64(about))))
	for _, factor := range []float64{1, 2, 5, 10} {
		if top/(step*factor) <= float64(about) {
			step *= factor
			break
		}
	}
	steps := int(math.Ceil(top/step - 1e-9))
	for i := 0; i <= steps; i++ {
		ticks = append(ticks, Tick{float64(i) / float64(steps), short(float64(i) * step)})
	}
	return float64(steps) * step, ticks
}

// short writes a figure for an axis: "500", "1.5k", "2M".
func short(f float64) string {
	for _, unit := range []struct {
		of   float64
		name string
	}{{1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if f >= unit.of {
			return output.Decimals(f/unit.of, 2) + unit.name
		}
	}
	return output.Decimals(f, 3)
}

// Logarithmic is a logarithmic axis.
type Logarithmic struct {
	Ticks     []Tick
	low, high float64 // log10 of its ends
}

// NewLogarithmic returns an axis that holds all whole numbers from least to most. Values
// below 1 are taken for 1. label writes the value of a tick.
func NewLogarithmic(least, most int64, label func(int64) string) *Logarithmic {
	least = max(least, 1)
	most = max(most, least)
	var steps []float64
	low, high := 0, 0
	for decade := 1.0; decade <= 1e13; decade *= 10 {
		for _, factor := range []float64{1, 2, 5} {
			value := decade * factor
			if value <= float64(least) {
				low = len(steps)
			}
			steps = append(steps, value)
			if value >= float64(most) && high == 0 && len(steps)-1 > low {
				high = len(steps) - 1
			}
		}
	}
	axis := &Logarithmic{low: math.Log10(steps[low]), high: math.Log10(steps[high])}
	every := 1
	if high-low > 7 {
		every = 3 // whole decades only
	}
	for i := low; i <= high; i++ {
		if i%every == 0 {
			axis.Ticks = append(axis.Ticks, Tick{axis.At(int64(steps[i])), label(int64(steps[i]))})
		}
	}
	return axis
}

// At returns the place of a value on the axis.
func (a *Logarithmic) At(value int64) float64 {
	return (math.Log10(float64(max(value, 1))) - a.low) / (a.high - a.low)
}

// Time returns the ticks of an axis of time from 0 to length, at most that many.
func Time(length time.Duration, most int) []Tick {
	steps := []time.Duration{time.Millisecond}
	for _, unit := range []time.Duration{time.Millisecond, 10 * time.Millisecond, 100 * time.Millisecond} {
		steps = append(steps, unit, 2*unit, 5*unit)
	}
	for _, unit := range []time.Duration{time.Second, time.Minute} {
		steps = append(steps, unit, 2*unit, 5*unit, 10*unit, 15*unit, 30*unit)
	}
	day := 24 * time.Hour
	steps = append(steps, time.Hour, 2*time.Hour, 3*time.Hour, 6*time.Hour, 12*time.Hour)
	steps = append(steps, day, 2*day, 7*day, 14*day, 30*day, 90*day, 365*day)
	step := steps[len(steps)-1]
	for _, candidate := range steps {
		if length/candidate < time.Duration(most) {
			step = candidate
			break
		}
	}
	var ticks []Tick
	for at := time.Duration(0); at <= length && len(ticks) <= 2*most; at += step {
		label := "0"
		if at > 0 {
			label = output.Duration(at)
		}
		ticks = append(ticks, Tick{float64(at) / float64(max(length, 1)), label})
	}
	return ticks
}

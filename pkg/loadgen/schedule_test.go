package loadgen

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// all returns the times of all requests of a schedule.
func all(stages []Stage) (due []time.Duration) {
	load := NewLoad(stages, Mix{Evenly(1), Costs{1, 1}}, 1)
	for {
		a, ok := load.Next()
		if !ok {
			return due
		}
		due = append(due, a.Due)
	}
}

func constant(rate float64, length time.Duration) []Stage { return []Stage{{length, rate, rate}} }

// However the rate changes, the number of arrivals is its integral, and each arrives when the integral has reached
// its number.
func TestStagesAreIntegratedExactly(t *testing.T) {
	rate := rapid.OneOf(rapid.Float64Range(0, 500), rapid.SampledFrom([]float64{0, 2, 4.7e-10}))
	rapid.Check(t, func(t *rapid.T) {
		var stages []Stage
		for range rapid.IntRange(1, 5).Draw(t, "stages") {
			stages = append(stages, Stage{
				time.Duration(rapid.Int64Range(1, 3000).Draw(t, "milliseconds")) * time.Millisecond,
				rate.Draw(t, "from"), rate.Draw(t, "to"),
			})
		}
		due := all(stages)
		if n, total := float64(len(due)), Total(stages); math.Abs(n-math.Ceil(total)) > 1e-9*total &&
			math.Abs(total-math.Round(total)) > 1e-6 {
			t.Fatalf("%v arrive, and the integral is %v", n, total)
		}
		if !slices.IsSorted(due) {
			t.Fatalf("%v goes back", due)
		}
		for n, at := range due {
			arrived := 0.0
			left := at
			for i := range stages {
				in := min(left, stages[i].Duration)
				arrived += stages[i].arrivals(in.Seconds())
				left -= in
			}
			// The error of rounding to a nanosecond, at 500/s and the square root's slope at 0.
			if math.Abs(arrived-float64(n)) > 1e-5 {
				t.Fatalf("request %d is due at %s, when %v have arrived", n, at, arrived)
			}
		}
	})
}

// The same seed gives the same requests, and another seed others.
func TestSeeds(t *testing.T) {
	take := func(seed uint64) (list []Arrival) {
		load := NewLoad(constant(1000, time.Second), Mix{Evenly(1000), Costs{1, 100}}, seed)
		for range 100 {
			a, _ := load.Next()
			list = append(list, a)
		}
		return list
	}
	if first := take(1); !slices.Equal(first, take(1)) || slices.Equal(first, take(2)) {
		t.Error("the same seed gives other requests, or another one the same")
	}
}

func TestDistributions(t *testing.T) {
	const n = 400_000
	for _, test := range []struct {
		name         string
		distribution Distribution
		share        func(subject int) float64
	}{
		{"evenly", Evenly(10), func(int) float64 { return 0.1 }},
		{"one", Evenly(1), func(int) float64 { return 1 }},
		{"zipf", Zipf(4, 1), func(i int) float64 { return 12.0 / 25 / float64(i+1) }},
		{"zipf below 1", Zipf(2, 0.5), func(i int) float64 { return []float64{0.585786, 0.414214}[i] }},
	} {
		t.Run(test.name, func(t *testing.T) {
			random := newRandom(3, streamSubjects)
			counts := make([]float64, test.distribution.Subjects())
			for range n {
				counts[test.distribution.choose(random)]++
			}
			for i, count := range counts {
				// Five standard deviations of a binomial distribution.
				want := test.share(i)
				if got := count / n; math.Abs(got-want) > 5*math.Sqrt(want*(1-want)/n)+1e-6 {
					t.Errorf("subject %d asks for %.4f of all, and should for %.4f", i, got, want)
				}
			}
		})
	}
}

// Cut stages have the arrivals, at the same times, that all stages have in that time.
func TestCut(t *testing.T) {
	stages := []Stage{{time.Second, 0, 1000}, {2 * time.Second, 1000, 500}, {time.Second, 500, 500}}
	for _, length := range []time.Duration{500 * time.Millisecond, time.Second, 1500 * time.Millisecond,
		4 * time.Second, time.Hour} {
		part := Cut(stages, length)
		if got, want := Length(part), min(length, Length(stages)); got != want {
			t.Errorf("%s of them are %s", length, got)
		}
		whole, some := all(stages), all(part)
		last, _ := slices.BinarySearch(whole, length)
		if len(some) != last {
			t.Errorf("in the first %s there are %d, want %d", length, len(some), last)
		}
		for i, got := range some {
			if difference := got - whole[i]; difference < -time.Microsecond || difference > time.Microsecond {
				t.Fatalf("in the first %s one is at %s, which was at %s", length, got, whole[i])
			}
		}
	}
}

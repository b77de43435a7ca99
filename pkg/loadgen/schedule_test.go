package loadgen

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// all returns the times of all requests of a schedule.
func all(s Schedule) (due []time.Duration) {
	for {
		d, ok := s.Next()
		if !ok {
			return due
		}
		due = append(due, d)
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
		due := all(Uniform(stages))
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

// The gaps of Poisson arrivals are exponentially distributed, also on a ramp if they are scaled by the integral of the
// rate, by the test of Kolmogorov and Smirnov: at a significance of 1 % the distributions differ by no more than
// 1.63 ÷ √n.
func TestPoissonGaps(t *testing.T) {
	for seed, stages := range [][]Stage{
		constant(1000, 100*time.Second), constant(1000, 100*time.Second),
		Ramp(100, []time.Duration{time.Minute}, []float64{2000}),
	} {
		due := all(Poisson(stages, uint64(seed)))
		if n := float64(len(due)); n != Total(stages) {
			t.Errorf("seed %d: %v arrivals", seed, n)
		}
		gaps := make([]float64, len(due)-1)
		for i := range gaps {
			gaps[i] = stages[0].arrivals(due[i+1].Seconds()) - stages[0].arrivals(due[i].Seconds())
		}
		if d, most := distance(gaps), 1.63/math.Sqrt(float64(len(gaps))); d > most {
			t.Errorf("seed %d: the gaps are %.5f away from exponential, more than %.5f", seed, d, most)
		}
	}
}

// distance is the statistic of Kolmogorov and Smirnov: the largest difference between the share of values up to x
// and the exponential distribution.
func distance(values []float64) (most float64) {
	slices.Sort(values)
	n := float64(len(values))
	for i, x := range values {
		p := 1 - math.Exp(-x)
		most = max(most, math.Abs(p-float64(i)/n), math.Abs(p-float64(i+1)/n))
	}
	return most
}

// The same seed gives the same requests, another seed others, and other arrivals do not change the subjects.
func TestSeeds(t *testing.T) {
	mix := Mix{Evenly(1000), Costs{1, 100}}
	take := func(s Schedule, seed uint64) (list []Arrival) {
		load := NewLoad(s, mix, seed)
		for range 100 {
			a, _ := load.Next()
			list = append(list, a)
		}
		return list
	}
	stages := constant(1000, time.Second)
	first := take(Poisson(stages, 1), 1)
	if !slices.Equal(first, take(Poisson(stages, 1), 1)) {
		t.Error("the same seed gives other requests")
	}
	if slices.Equal(first, take(Poisson(stages, 2), 1)) || slices.Equal(first, take(Poisson(stages, 1), 2)) {
		t.Error("another seed gives the same requests")
	}
	for i, a := range take(Uniform(stages), 1) {
		if a.Subject != first[i].Subject || a.Cost != first[i].Cost || a.Cost < 1 || a.Cost > 100 {
			t.Fatalf("request %d is of %d at %d, and was of %d at %d", i, a.Subject, a.Cost, first[i].Subject,
				first[i].Cost)
		}
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
		all, some := Uniform(stages), Uniform(part)
		for {
			want, more := all.Next()
			got, ok := some.Next()
			if ok != (more && want < length) {
				t.Errorf("in the first %s there is one at %s: %t", length, want, ok)
			}
			if !ok {
				break
			}
			if difference := got - want; difference < -time.Microsecond || difference > time.Microsecond {
				t.Fatalf("in the first %s one is at %s, which was at %s", length, got, want)
			}
		}
	}
}

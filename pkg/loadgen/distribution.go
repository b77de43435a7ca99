package loadgen

import (
	"math"
	"math/rand/v2"
	"sort"
)

// Distribution says how often each subject sends requests. The zero Distribution has no subjects.
type Distribution struct {
	subjects uint32
	sums     []float64 // of the weights through each subject; nil if all are equally likely
}

// Subjects returns the number of subjects.
func (d Distribution) Subjects() int { return int(d.subjects) }

// Evenly has n equally likely subjects, at random.
func Evenly(n uint32) Distribution { return Distribution{subjects: n} }

// Zipf has n subjects. Subject i, from 1, is chosen in proportion to 1 ÷ i^s, as is common for users, addresses and
// pages with s about 1. s must be positive.
func Zipf(n uint32, s float64) Distribution {
	d, sum := Distribution{subjects: n, sums: make([]float64, n)}, 0.0
	for i := range d.sums {
		sum += math.Pow(float64(i+1), -s)
		d.sums[i] = sum
	}
	return d
}

// choose returns the next subject.
func (d *Distribution) choose(random *rand.Rand) uint32 {
	switch {
	case d.sums != nil:
		last := len(d.sums) - 1
		point := random.Float64() * d.sums[last]
		return uint32(min(last, sort.Search(last, func(i int) bool { return d.sums[i] > point })))
	case d.subjects == 1:
		return 0
	}
	return random.Uint32N(d.subjects)
}

package loadgen

import (
	"math"
	"math/rand/v2"
	"sort"
)

// Distribution says how often each subject sends requests. The zero Distribution has no subjects.
type Distribution struct {
	subjects   uint32
	sequential bool
	sums       []float64 // of the weights through each subject; nil if all are equally likely
}

// Subjects returns the number of subjects.
func (d Distribution) Subjects() int { return int(d.subjects) }

// Evenly has n equally likely subjects, at random.
func Evenly(n uint32) Distribution { return Distribution{subjects: n} }

// Sequential has n subjects, one after the other.
func Sequential(n uint32) Distribution { return Distribution{subjects: n, sequential: true} }

// Zipf has n subjects. Subject i, from 1, is chosen in proportion to 1 ÷ i^s, as is common for users, addresses and
// pages with s about 1. s must be positive.
func Zipf(n uint32, s float64) Distribution {
	weights := make([]float64, n)
	for i := range weights {
		weights[i] = math.Pow(float64(i+1), -s)
	}
	return Weighted(weights)
}

// Hot has n subjects, of which the first few send a share of all requests, 0 to 1, and the others the rest.
func Hot(n, few uint32, share float64) Distribution {
	weights := make([]float64, n)
	for i := range weights {
		if uint32(i) < few {
			weights[i] = share / float64(few)
		} else {
			weights[i] = (1 - share) / float64(n-few)
		}
	}
	return Weighted(weights)
}

// Weighted chooses each subject in proportion to its weight, which is 0 or more.
func Weighted(weights []float64) Distribution {
	d, sum := Distribution{subjects: uint32(len(weights)), sums: make([]float64, len(weights))}, 0.0
	for i, weight := range weights {
		sum += weight
		d.sums[i] = sum
	}
	return d
}

// choose returns the next subject; turn counts the requests if subjects take turns.
func (d *Distribution) choose(random *rand.Rand, turn uint64) uint32 {
	switch {
	case d.sequential:
		return uint32(turn % uint64(d.subjects))
	case d.sums != nil:
		last := len(d.sums) - 1
		point := random.Float64() * d.sums[last]
		return uint32(min(last, sort.Search(last, func(i int) bool { return d.sums[i] > point })))
	case d.subjects == 1:
		return 0
	}
	return random.Uint32N(d.subjects)
}

package loadgen

import (
	"math"
	"math/rand/v2"
)

// Distribution says how often each subject sends requests. The zero Distribution has no subjects.
type Distribution struct {
	subjects   uint32
	sequential bool
	weighted   *alias // nil if all are equally likely
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
	return Distribution{subjects: uint32(len(weights)), weighted: newAlias(weights)}
}

// choose returns the next subject; turn counts the requests if subjects take turns.
func (d *Distribution) choose(random *rand.Rand, turn uint64) uint32 {
	switch {
	case d.sequential:
		return uint32(turn % uint64(d.subjects))
	case d.weighted != nil:
		return d.weighted.choose(random)
	case d.subjects == 1:
		return 0
	}
	return random.Uint32N(d.subjects)
}

// alias chooses by weight, in a time that does not depend on their number (A. Walker, 1977, in the form of M. Vose,
// 1991): at most two items share a place, its own and one other.
type alias struct {
	own   []float64 // the part of the place that belongs to its own item
	other []uint32
}

func newAlias(weights []float64) *alias {
	sum := 0.0
	for _, w := range weights {
		sum += w
	}
	a := &alias{make([]float64, len(weights)), make([]uint32, len(weights))}
	var small, large []uint32
	for i, w := range weights {
		a.own[i] = w / sum * float64(len(weights))
		a.other[i] = uint32(i)
		if a.own[i] < 1 {
			small = append(small, uint32(i))
		} else {
			large = append(large, uint32(i))
		}
	}
	for len(small) > 0 && len(large) > 0 {
		less, more := small[len(small)-1], large[len(large)-1]
		small = small[:len(small)-1]
		a.other[less] = more
		if a.own[more] -= 1 - a.own[less]; a.own[more] < 1 {
			large = large[:len(large)-1]
			small = append(small, more)
		}
	}
	for _, i := range append(small, large...) { // 1 except for rounding errors
		a.own[i] = 1
	}
	return a
}

func (a *alias) choose(random *rand.Rand) uint32 {
	place := random.Uint32N(uint32(len(a.own)))
	if random.Float64() < a.own[place] {
		return place
	}
	return a.other[place]
}

package loadgen

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// Schedule is the times of requests. It reads no clock and never waits, so that tests can be exact. It is for one
// goroutine.
type Schedule interface {
	// Next returns when the next request is due, from the beginning of the run, and false when there are no more.
	// The times never decrease.
	Next() (due time.Duration, ok bool)
}

// Stage is a part of a run in which the rate changes evenly from one value to another.
type Stage struct {
	Duration time.Duration
	// From and To are arrivals in a second, 0 or more.
	From, To float64
}

// Ramp returns the stages of a run that begins at rate first and reaches each of the targets after its duration.
func Ramp(first float64, durations []time.Duration, targets []float64) []Stage {
	stages := make([]Stage, len(targets))
	for i, target := range targets {
		stages[i] = Stage{durations[i], first, target}
		first = target
	}
	return stages
}

// arrivals is the number of arrivals in the first elapsed seconds of the stage: the integral of the rate, which is
// a straight line.
func (s *Stage) arrivals(elapsed float64) float64 {
	slope := (s.To - s.From) / s.Duration.Seconds()
	return elapsed * (s.From + slope*elapsed/2)
}

// Total returns the number of arrivals of all stages, which can be a fraction.
func Total(stages []Stage) (arrivals float64) {
	for i := range stages {
		arrivals += stages[i].arrivals(stages[i].Duration.Seconds())
	}
	return arrivals
}

// Length returns the length of all stages.
func Length(stages []Stage) (length time.Duration) {
	for i := range stages {
		length += stages[i].Duration
	}
	return length
}

// Cut returns the stages up to that length.
func Cut(stages []Stage, length time.Duration) []Stage {
	var first []Stage
	for _, s := range stages {
		if length <= 0 {
			break
		}
		if s.Duration > length {
			s.To = s.From + (s.To-s.From)*length.Seconds()/s.Duration.Seconds()
			s.Duration = length
		}
		length -= s.Duration
		first = append(first, s)
	}
	return first
}

// timeOf returns when, within the stage, that many requests have arrived. It is the inverse of arrivals, in the
// form of the quadratic's root that stays exact for a slope near 0.
func (s *Stage) timeOf(arrivals float64) float64 {
	slope := (s.To - s.From) / s.Duration.Seconds()
	root := math.Sqrt(max(0, s.From*s.From+2*slope*arrivals))
	if s.From+root == 0 {
		return 0
	}
	return min(2*arrivals/(s.From+root), s.Duration.Seconds())
}

// staged walks through stages by the number of arrivals.
type staged struct {
	stages []Stage
	before float64 // arrivals of the stages before
	begin  time.Duration
}

// at returns when that many requests have arrived. The argument must not decrease from call to call.
func (s *staged) at(arrivals float64) (due time.Duration, ok bool) {
	for len(s.stages) > 0 {
		stage := &s.stages[0]
		in := stage.arrivals(stage.Duration.Seconds())
		// A request at the very end of a stage belongs to the next one. Rounding can put it a little before the
		// beginning of that.
		if within := max(0, arrivals-s.before); within < in*(1-1e-12) {
			return s.begin + time.Duration(math.Round(stage.timeOf(within)*1e9)), true
		}
		s.before += in
		s.begin += stage.Duration
		s.stages = s.stages[1:]
	}
	return 0, false
}

// uniform arrivals are as evenly spaced as the rate allows.
type uniform struct {
	staged staged
	n      float64
}

// Uniform returns a Schedule of evenly spaced arrivals: arrival n is due when the integral of the rate has reached
// n, the first at once.
func Uniform(stages []Stage) Schedule {
	return &uniform{staged: staged{stages: slices.Clone(stages)}}
}

func (u *uniform) Next() (time.Duration, bool) {
	due, ok := u.staged.at(u.n)
	u.n++
	return due, ok
}

// poisson arrivals are those of many independent callers.
type poisson struct {
	staged staged
	random *rand.Rand
	total  float64 // the integral of the rate
	sum    float64 // of it, at the last arrival
	left   int     // arrivals to come
}

// Poisson returns a Schedule of independent arrivals: a Poisson process whose number of arrivals is fixed to the
// total of the rate, so that the actual rate is the wanted one. Given their number, the arrivals of a Poisson
// process are equally likely anywhere, as measured by the integral of the rate. Each is computed from the one
// before and the number of those still to come.
func Poisson(stages []Stage, seed uint64) Schedule {
	total := Total(stages)
	return &poisson{
		staged: staged{stages: slices.Clone(stages)}, random: newRandom(seed, streamArrivals),
		total: total, left: int(math.Round(total)),
	}
}

func (p *poisson) Next() (time.Duration, bool) {
	if p.left == 0 {
		return 0, false
	}
	// The least of n numbers between 0 and 1 has the distribution of 1 − u^(1/n), where u is one such number.
	p.sum = p.total - (p.total-p.sum)*math.Exp(-p.random.ExpFloat64()/float64(p.left))
	p.left--
	return p.staged.at(p.sum)
}

// The streams of random numbers in a run. They are separate, so that other arrivals do not change the subjects.
const (
	streamArrivals = iota
	streamSubjects
	streamCosts
	streamWorkers // two for each worker
)

func newRandom(seed, stream uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, stream)) }

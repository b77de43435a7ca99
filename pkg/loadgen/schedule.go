package loadgen

import (
	"math"
	"math/rand/v2"
	"time"
)

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

// mixed is the Load of stages and a mix.
type mixed struct {
	stages  []Stage
	n       float64 // the number of the next request
	before  float64 // arrivals of the stages before
	begin   time.Duration
	chooser chooser
}

// NewLoad returns the Load of evenly spaced arrivals: arrival n is due when the integral of the rate has reached n, the
// first at once. Subjects and costs are those of a mix.
func NewLoad(stages []Stage, mix Mix, seed uint64) Load {
	return &mixed{stages: stages, chooser: mix.chooser(newRandom(seed, streamSubjects), newRandom(seed, streamCosts))}
}

// Next implements [Load].
func (m *mixed) Next() (a Arrival, ok bool) {
	for ; len(m.stages) > 0; m.stages = m.stages[1:] {
		stage := &m.stages[0]
		in := stage.arrivals(stage.Duration.Seconds())
		// A request at the very end of a stage belongs to the next one. Rounding can put it a little before the
		// beginning of that.
		if within := max(0, m.n-m.before); within < in*(1-1e-12) {
			m.n++
			a.Due = m.begin + time.Duration(math.Round(stage.timeOf(within)*1e9))
			a.Subject, a.Cost = m.chooser.next()
			return a, true
		}
		m.before += in
		m.begin += stage.Duration
	}
	return a, false
}

// The streams of random numbers in a run. They are separate, so that other costs do not change the subjects.
const (
	streamSubjects = iota + 1
	streamCosts
	streamWorkers // two for each worker
)

func newRandom(seed, stream uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, stream)) }

package loadgen

import (
	"context"
	"math"
	"math/rand/v2"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/loadgen/audit/interval"
)

// Arrival is one request of a load.
type Arrival struct {
	// Due is when it is due, from the beginning of the run.
	Due time.Duration
	// Subject is the index of the subject.
	Subject uint32
	// Cost is its cost in units, 1 or more.
	Cost int64
}

// Load is a run's requests, in the order in which they are due. It is for one goroutine.
type Load interface {
	// Next returns the next request, and false when there are no more.
	Next() (Arrival, bool)
}

// Mix is the distribution of subjects and costs.
type Mix struct {
	Subjects Distribution
	Costs    Costs
}

// chooser chooses the subject and the cost of each request.
type chooser struct {
	mix             Mix
	subjects, costs *rand.Rand
}

func (m *Mix) chooser(subjects, costs *rand.Rand) chooser { return chooser{*m, subjects, costs} }

func (c *chooser) next() (subject uint32, cost int64) {
	return c.mix.Subjects.choose(c.subjects), c.mix.Costs.choose(c.costs)
}

// Costs are the costs of requests: whole numbers from Least to Most, all equally likely.
type Costs struct{ Least, Most int64 }

func (c Costs) choose(random *rand.Rand) int64 {
	if c.Least == c.Most {
		return c.Least
	}
	return c.Least + random.Int64N(c.Most-c.Least+1)
}

// Exchanger is a [store.Store] in front of a remote decider that can say when the request was sent and answered.
// [Run] calls Exchange instead of Decide.
type Exchanger interface {
	store.Store
	// Exchange sends one request of a subject of the [Population], at a cost, for all of its limits together.
	Exchange(ctx context.Context, subject uint32, cost int64) (Exchanged, error)
}

// Exchanged is the answer to a request that an [Exchanger] sent.
type Exchanged struct {
	Allowed bool
	// Sent is the instant before the request was written, and Answered the instant at which its answer was complete.
	// They leave out one-time work, such as a connection. Either is zero if it was not reached.
	Sent, Answered time.Time
	// Reported is what the answer said about the only limit; nil if nothing.
	Reported *interval.Reported
}

// exchange calls e and returns when the request was sent and answered, since the beginning of the run. began is
// when the call began.
func (w *worker) exchange(e Exchanger, a Arrival, began time.Duration) (sent, answered time.Duration, err error) {
	r := w.run
	answer, err := e.Exchange(r.deadlines.at(r.begin, began), a.Subject, a.Cost)
	for i := range w.decisions {
		w.decisions[i] = store.Decision{Allowed: answer.Allowed}
	}
	w.reported = answer.Reported
	if sent = began; !answer.Sent.IsZero() {
		sent = answer.Sent.Sub(r.begin)
	}
	if answer.Answered.IsZero() {
		return sent, r.elapsed(), err
	}
	return sent, answer.Answered.Sub(r.begin), err
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

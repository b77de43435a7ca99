package loadgen

import (
	"math/rand/v2"
	"time"
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

// mixed is a Load of a schedule and a mix.
type mixed struct {
	schedule Schedule
	chooser  chooser
}

// NewLoad returns the Load of a schedule, with the subjects and costs of a mix.
func NewLoad(schedule Schedule, mix Mix, seed uint64) Load {
	return &mixed{schedule, mix.chooser(newRandom(seed, streamSubjects), newRandom(seed, streamCosts), 0, 1)}
}

func (m *mixed) Next() (Arrival, bool) {
	due, ok := m.schedule.Next()
	if !ok {
		return Arrival{}, false
	}
	subject, cost := m.chooser.next()
	return Arrival{due, subject, cost}, true
}

// chooser chooses the subject and the cost of each request.
type chooser struct {
	mix             Mix
	subjects, costs *rand.Rand
	turn, step      uint64 // if subjects take turns
}

func (m *Mix) chooser(subjects, costs *rand.Rand, first, step uint64) chooser {
	return chooser{*m, subjects, costs, first, step}
}

func (c *chooser) next() (subject uint32, cost int64) {
	subject = c.mix.Subjects.choose(c.subjects, c.turn)
	c.turn += c.step
	return subject, c.mix.Costs.choose(c.costs)
}

// Costs are the costs of requests: whole numbers from Least to Most, all equally likely.
type Costs struct{ Least, Most int64 }

func (c Costs) choose(random *rand.Rand) int64 {
	if c.Least == c.Most {
		return c.Least
	}
	return c.Least + random.Int64N(c.Most-c.Least+1)
}

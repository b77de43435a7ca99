package experiment

import (
	"fmt"
	"time"

	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/pkg/loadgen"
)

// Load says which requests a load test sends.
//
// When they are sent is said by one of Stages, Burst and Scenario. Without any of
// them the load is a closed loop: each worker sends a request when its last one is
// answered.
type Load struct {
	// Stages are rates of arrival over time. Arrivals are evenly spaced, or random if
	// Poisson is set.
	Stages  []loadgen.Stage
	Poisson bool
	// Burst requests arrive at once, every Interval.
	Burst    int
	Interval time.Duration
	Scenario *loadgen.Scenario

	// Subjects is how many subjects ask.
	Subjects int
	// Mix says who asks, and for how much. Scenarios say that themselves.
	Mix loadgen.Mix
	// Seed is what random numbers follow from: the same seed gives the same requests.
	Seed uint64

	// Workers is how many requests may be under way at once.
	Workers int
	// Duration is how long requests are sent. Without it stages and scenarios
	// go on to their own end; the other loads need it.
	Duration time.Duration
	// Requests, if it is not 0, is the most requests to send.
	Requests int64
	// Warmup is how long, at the beginning, requests are audited but neither counted nor
	// timed.
	Warmup time.Duration

	// Words describe the load, for the report, and Rate is how many
	// requests a second it asks for on average, 0 for a closed loop.
	Words string
	Rate  float64
}

// IsClosed reports whether the load is a closed loop.
func (l *Load) IsClosed() bool {
	return len(l.Stages) == 0 && l.Burst == 0 && l.Scenario == nil
}

// Arrivals returns the requests of one run. It is nil for a closed loop.
func (l *Load) Arrivals(setting loadgen.Setting) loadgen.Load {
	switch {
	case l.IsClosed():
		return nil
	case l.Scenario != nil:
		return l.Scenario.Load(setting)
	case l.Burst > 0:
		return loadgen.NewLoad(loadgen.Bursts(l.Burst, l.Interval, l.Duration), l.Mix, l.Seed)
	case l.Poisson:
		return loadgen.NewLoad(loadgen.Poisson(l.Stages, l.Seed), l.Mix, l.Seed)
	}
	return loadgen.NewLoad(loadgen.Uniform(l.Stages), l.Mix, l.Seed)
}

// length is how long requests are sent, and 0 if that is known only when the run begins.
func (l *Load) length() time.Duration {
	if l.Duration > 0 {
		return l.Duration
	}
	return loadgen.Length(l.Stages)
}

// MaxDuration is the longest that a load test goes on.
const MaxDuration = 31 * 24 * time.Hour

// checkWarmup reports whether something is left to count of a run of that length.
func (l *Load) checkWarmup(length time.Duration) error {
	if l.Warmup > 0 && l.Warmup >= length {
		problem := fmt.Sprintf("leaves nothing to count of a run of %s; make it shorter", output.Duration(length))
		return &PlanError{fieldWarmup, problem}
	}
	return nil
}

// maxAtOnce is how many requests a scenario may send at once: no store answers more in
// the time that it has for them.
const maxAtOnce = 1_000_000

// check reports what of the load can never work under a candidate whose greatest
// possible cost is most.
func (l *Load) check(setting loadgen.Setting, most int64) error {
	if costs := l.Mix.Costs; costs.Most > most {
		problem := fmt.Sprintf("asks for %d units at once, and the limit never allows more than %d; lower the cost", costs.Most, most)
		return &PlanError{fieldCost, problem}
	}
	if l.Scenario == nil {
		return nil
	}
	if n := l.Scenario.AtOnce(setting); n > maxAtOnce {
		problem := fmt.Sprintf("sends %d requests at once to %s over %s, and %d is the most there can be; use a smaller limit "+
			"or fewer keys",
			n, setting.Limit, output.Plural(setting.Subjects, "key"), maxAtOnce)
		return &PlanError{fieldScenario, problem}
	}
	return nil
}

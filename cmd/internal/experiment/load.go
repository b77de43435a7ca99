package experiment

import (
	"fmt"
	"strconv"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/pkg/loadgen"
)

// Load says which requests a load test sends.
//
// When they are sent is said by one of Stages, Burst, Scenario and Replay. Without any of
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
	Replay   *Replay

	// Subjects is how many subjects ask. A replay has those of its log.
	Subjects int
	// Mix says who asks, and for how much. Scenarios and replays say that themselves.
	Mix loadgen.Mix
	// Seed is what random numbers follow from: the same seed gives the same requests.
	Seed uint64

	// Workers is how many requests may be under way at once.
	Workers int
	// Duration is how long requests are sent. Without it stages, scenarios and replays
	// go on to their own end; the other loads need it.
	Duration time.Duration
	// Requests, if it is not 0, is the most requests to send.
	Requests int64
	// Warmup is how long, at the beginning, requests are audited but neither counted nor
	// timed.
	Warmup time.Duration

	// Words describe a load that is not a replay, for the report, and Rate is how many
	// requests a second it asks for on average, 0 for a closed loop.
	Words string
	Rate  float64
}

// IsClosed reports whether the load is a closed loop.
func (l *Load) IsClosed() bool {
	return len(l.Stages) == 0 && l.Burst == 0 && l.Scenario == nil && l.Replay == nil
}

// Arrivals returns the requests of one run of a load that is not a replay. It is nil for
// a closed loop.
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

// length is how long requests are sent under a candidate, and 0 if that is known only
// when the run begins. recorded is the recording of a replay.
func (l *Load) length(recorded *recording) time.Duration {
	own := time.Duration(0)
	switch {
	case recorded != nil:
		own = replayTime(recorded.requests, recorded.speed)
		if l.Duration > 0 {
			own = min(own, l.Duration)
		}
		return own
	case l.Duration > 0:
		return l.Duration
	}
	return loadgen.Length(l.Stages)
}

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

// describe says what was sent, and how much of it in a second. recorded is the recording
// of a replay.
func (l *Load) describe(recorded *recording) (words string, rate float64) {
	if recorded == nil {
		return l.Words, l.Rate
	}
	words = fmt.Sprintf("replay of %s by %s", l.Replay.Log.Name, recorded.fields)
	if recorded.speed != 1 {
		words += fmt.Sprintf(", %s times as fast", strconv.FormatFloat(recorded.speed, 'f', -1, 64))
	}
	return words, float64(len(recorded.requests.Requests)) / replayTime(recorded.requests, recorded.speed).Seconds()
}

package probe

import (
	"slices"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// mostCompared is how many models are compared at once.
const mostCompared = 16

// models returns models that are left, some of each family.
func (x *explorer) models() (models []model) {
	for nth := range mostCompared {
		for i := range x.explanations {
			if all := x.explanations[i].models; nth < len(all) && len(models) < mostCompared {
				models = append(models, all[nth])
			}
		}
	}
	return models
}

// rest returns how long to leave a limit alone that all subjects share, so that the next
// experiment finds it unused.
func (x *explorer) rest(models []model) (longest time.Duration) {
	if !x.shared {
		return 0
	}
	for i := range models {
		span := models[i].fullSpan()
		if models[i].limit.Algorithm == store.SlidingCounter {
			span *= 2
		}
		longest = max(longest, span)
	}
	return longest + longest/20
}

// mostRounds is how often experiments are chosen by what is known.
const mostRounds = 8

// compare runs experiments for which the models that are left predict different answers.
func (x *explorer) compare() error {
	confirmed := false
	repeated := make(map[string]int)
	for range mostRounds {
		x.judge()
		models := x.models()
		if len(models) == 0 {
			return nil
		}
		each, unsure := x.latency()
		p := pace{each, x.config.Workers}
		now := x.clock.Now().Add(20 * time.Millisecond).Add(x.rest(models))
		all := design(int(models[0].limit.Capacity()), spansOf(models), x.evidence.windowEdges(models), now)
		all = slices.DeleteFunc(all, func(e experiment) bool { return repeated[e.signature()] >= 2 })
		chosen := choose(all, models, now, p, unsure, x.requestsLeft(), x.timeLeft())
		if x.shared && len(chosen) > 0 {
			chosen = chosen[:1]
			if chosen[0].begin.IsZero() {
				chosen[0].begin = now
			}
		}
		if len(chosen) == 0 && !confirmed {
			chosen, confirmed = confirmation(&models[0], x.requestsLeft(), now, x.clock.Now().Add(x.timeLeft()), x.rest(models)), true
		}
		if len(chosen) == 0 {
			return nil
		}
		longest := time.Duration(0)
		for i := range chosen {
			repeated[chosen[i].signature()]++
			took := chosen[i].last()
			if !chosen[i].begin.IsZero() {
				took += chosen[i].begin.Sub(now)
			}
			longest = max(longest, took)
		}
		x.step(longest, "telling %d possible limits apart by %s", len(models), counted(len(chosen), "experiment"))
		if err := x.perform(chosen); err != nil {
			x.judge()
			return err
		}
	}
	x.judge()
	return nil
}

// fullSpan returns how long all that is admitted at once takes to come back.
func (m *model) fullSpan() time.Duration {
	if m.limit.Algorithm.HasBurst() {
		return time.Duration(float64(m.limit.Period) * float64(m.limit.Burst) / float64(m.limit.Count))
	}
	return m.limit.Period
}

// latency returns how long a request takes of the time of a step, and how exactly a request's
// decision can be timed.
func (x *explorer) latency() (each, unsure time.Duration) {
	var all []time.Duration
	for i := range x.events {
		if e := &x.events[i]; e.Err == nil {
			all = append(all, e.Answered.Sub(e.Sent))
		}
	}
	slices.Sort(all)
	each = all[len(all)/2]
	unsure = 2*all[len(all)*9/10] + 3*time.Millisecond
	return each, unsure
}

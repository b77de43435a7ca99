package probe

import (
	"slices"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/cmd/internal/probe/explain"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// mostCompared is the most models that are compared at once.
const mostCompared = 16

// models returns some of the remaining models of each family.
func (x *explorer) models() (models []explain.Model) {
	for nth := range mostCompared {
		for i := range x.explanations {
			if all := x.explanations[i].Models; nth < len(all) && len(models) < mostCompared {
				models = append(models, all[nth])
			}
		}
	}
	return models
}

// rest returns how long to leave a limit that all subjects share alone, so that the next sequence finds it unused.
func (x *explorer) rest(models []explain.Model) (longest time.Duration) {
	if !x.shared {
		return 0
	}
	for i := range models {
		span := models[i].FullSpan()
		if models[i].Limit.Algorithm == store.SlidingCounter {
			span *= 2
		}
		longest = max(longest, span)
	}
	return longest + longest/20
}

// mostRounds is how often sequences are chosen by what is known.
const mostRounds = 8

// compare runs sequences for which the remaining models predict different answers.
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
		p := explain.Pace{Each: each, Workers: x.config.Workers}
		now := x.clock.Now().Add(20 * time.Millisecond).Add(x.rest(models))
		all := explain.Design(int(models[0].Limit.Capacity()), explain.SpansOf(models), x.evidence.WindowEdges(models), now)
		all = slices.DeleteFunc(all, func(e explain.Sequence) bool { return repeated[e.Signature()] >= 2 })
		chosen := explain.Choose(all, models, now, p, unsure, x.requestsLeft(), x.timeLeft())
		if x.shared && len(chosen) > 0 {
			chosen = chosen[:1]
			if chosen[0].Begin.IsZero() {
				chosen[0].Begin = now
			}
		}
		if len(chosen) == 0 && !confirmed {
			chosen, confirmed = explain.Confirmation(&models[0], x.requestsLeft(), now, x.clock.Now().Add(x.timeLeft()), x.rest(models)),
				true
		}
		if len(chosen) == 0 {
			return nil
		}
		longest := time.Duration(0)
		for i := range chosen {
			repeated[chosen[i].Signature()]++
			took := chosen[i].Last()
			if !chosen[i].Begin.IsZero() {
				took += chosen[i].Begin.Sub(now)
			}
			longest = max(longest, took)
		}
		x.step(longest, "telling %d possible limits apart by %s", len(models), output.Plural(len(chosen), "experiment"))
		if err := x.perform(chosen); err != nil {
			x.judge()
			return err
		}
	}
	x.judge()
	return nil
}

// latency returns how much of a step's time a request takes, and how exactly the instant of a decision can be known.
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

// perform runs sequences at the same time, each with a subject of its own.
func (s *session) perform(all []explain.Sequence) error {
	type action struct {
		at      time.Time
		subject string
		explain.Step
	}
	var actions []action
	now := s.clock.Now()
	for i := range all {
		begin := all[i].Begin
		if begin.IsZero() {
			begin = now
		}
		subject := s.subject()
		for _, step := range all[i].Steps {
			actions = append(actions, action{begin.Add(step.At), subject, step})
		}
	}
	slices.SortStableFunc(actions, func(a, b action) int { return a.at.Compare(b.at) })
	for i := range actions {
		a := &actions[i]
		if err := s.waitUntil(a.at); err != nil {
			return err
		}
		denials := 0
		if a.UntilDenied {
			denials = 1
		}
		if _, err := s.sendMany(a.subject, a.N, denials); err != nil {
			return err
		}
	}
	return nil
}

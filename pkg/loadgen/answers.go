package loadgen

import (
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Answers is the requests that one decider answered.
type Answers struct {
	By              store.Decider
	Allowed, Denied int64
	// Latency is from when they were due to their answers, in microseconds.
	Latency *hdrhistogram.Histogram
}

// IsLimit reports whether answers by d are about the limit itself, because the store made
// them or vouched for them. What a local share or a failure policy answers while the store
// is away is about something else.
func IsLimit(d store.Decider) bool {
	return d != store.DecidedByLocal && d != store.DecidedByFailurePolicy
}

// answers counts and times what deciders answered, each in the place of its number.
type answers []*Answers

// add counts an answer.
func (a *answers) add(by store.Decider, allowed bool, latency time.Duration) {
	for len(*a) <= int(by) {
		*a = append(*a, nil)
	}
	of := (*a)[by]
	if of == nil {
		of = &Answers{By: by, Latency: newHistogram()}
		(*a)[by] = of
	}
	if allowed {
		of.Allowed++
	} else {
		of.Denied++
	}
	record(of.Latency, latency)
}

// list returns those who have answered something.
func (a answers) list() []Answers {
	var all []Answers
	for _, of := range a {
		if of != nil {
			all = append(all, *of)
		}
	}
	return all
}

// latency is that of all answers about the limit itself. A single decider's is shared,
// because nearly all runs have no other.
func (a answers) latency() *hdrhistogram.Histogram {
	about := slices.DeleteFunc(slices.Clone(a), func(of *Answers) bool { return of == nil || !IsLimit(of.By) })
	if len(about) == 1 {
		return about[0].Latency
	}
	all := newHistogram()
	for _, of := range about {
		all.Merge(of.Latency)
	}
	return all
}

// deciderOf returns who made a call's decisions. Where another answered for the store in
// any of them, it is that one.
func deciderOf(decisions []store.Decision) store.Decider {
	for i := range decisions {
		if by := decisions[i].DecidedBy; by != store.DecidedByStore {
			return by
		}
		if decisions[i].Unguarded {
			return store.DecidedByFailurePolicy
		}
	}
	return store.DecidedByStore
}

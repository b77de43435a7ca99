package loadgen

import (
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Answers are the requests that one decider answered.
type Answers struct {
	By              store.Decider
	Allowed, Denied int64
	// Latency is the time from when a request was due to its answer, in microseconds.
	Latency *hdrhistogram.Histogram
}

// IsLimit reports whether answers by d tell something about the limit, because the store made or vouched for them.
// Those of a local share or a failure policy, while the store is away, do not.
func IsLimit(d store.Decider) bool {
	return d != store.DecidedByLocal && d != store.DecidedByFailurePolicy
}

// answers has the answers of each decider at the index of its number.
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

// list returns the deciders that have answered something.
func (a answers) list() []Answers {
	var all []Answers
	for _, of := range a {
		if of != nil {
			all = append(all, *of)
		}
	}
	return all
}

// latency is the latency of all answers about the limit. If there is one decider, as in nearly all runs, the
// histogram is shared.
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

// deciderOf returns who made the decisions of a call: the first one other than the store, if there is one.
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

package loadgen

import (
	"context"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/loadgen/audit/interval"
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

package loadgen

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/limitctl/limitctl/internal/panics"
	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/loadgen/audit"
	"github.com/limitctl/limitctl/pkg/loadgen/trace"
)

// apart is a simulation of subjects that share no key, so that decisions on one do not affect the others. It
// decides them in parts: all requests of some subjects, in their order, and then those of others. Only the parts
// under way need memory for states and audits, and the processors work on different parts.
type apart struct {
	trace     *trace.Trace
	limits    []store.Limit // normalized
	values    *trace.Subjects
	subjectOf []uint32 // of the trace's subjects; nil if they are the same
	// The requests by subject, each subject's in their order: those of subject i are from ends[i-1] to ends[i]. Deciding one
	// subject after the other finds its state and its audit in the processor's cache.
	instants []store.Instant
	costs    []uint32 // nil if all are 1
	ends     []uint32
}

const (
	// subjectsInPart is the number of subjects in a part. Their state fits into some ten megabytes.
	subjectsInPart = 1 << 16
	// mostParts bounds how many findings are merged.
	mostParts = 32
)

// newApart returns a simulation of subjects that each have the limits for themselves. A wrong limit is a
// [store.ErrInvalid].
func newApart(t *trace.Trace, c *Candidate) (*apart, error) {
	a := &apart{trace: t}
	for _, limit := range c.limits {
		normalized, err := limit.Normalize()
		if err != nil {
			return nil, err
		}
		a.limits = append(a.limits, normalized)
	}
	a.values, a.subjectOf = t.Subjects.By(c.Fields, c.as)
	a.group()
	return a, nil
}

// subject converts a subject of the trace to one of the candidate.
func (a *apart) subject(ofTrace uint32) uint32 {
	if a.subjectOf == nil {
		return ofTrace
	}
	return a.subjectOf[ofTrace]
}

// group puts the requests in the order of their subjects.
func (a *apart) group() {
	next := make([]uint32, a.values.Len()+1) // where each subject begins, at the index after its own
	requests, same := a.trace.Requests, true
	for i := range requests {
		next[a.subject(requests[i].Subject)+1]++
		same = same && requests[i].Cost == 1
	}
	for i := 1; i < len(next); i++ {
		next[i] += next[i-1]
	}
	a.instants = make([]store.Instant, len(requests))
	if !same {
		a.costs = make([]uint32, len(requests))
	}
	for i := range requests {
		r := &requests[i]
		at := &next[a.subject(r.Subject)]
		a.instants[*at] = r.At
		if !same {
			a.costs[*at] = r.Cost
		}
		*at++
	}
	a.ends = next[:len(next)-1]
}

// of returns the range of a subject's requests.
func (a *apart) of(subject uint32) (from, to uint32) {
	if subject > 0 {
		from = a.ends[subject-1]
	}
	return from, a.ends[subject]
}

// parts is the number of parts, a power of two.
func (a *apart) parts() int {
	parts := 1
	for parts < mostParts && (parts < runtime.GOMAXPROCS(0) || a.values.Len() > parts*subjectsInPart) && a.values.Len() > parts {
		parts *= 2
	}
	return parts
}

// simulate decides and audits all requests under the limits.
func (a *apart) simulate(ctx context.Context, limits []store.Limit, progress func(decided, denied int64)) (*Simulation, error) {
	result := &Simulation{Subjects: a.values}
	findings := make([][]audit.Finding, len(limits))
	err := a.each(ctx, limits, true, progress, func(part *simulator, subject func(uint32) uint32) {
		own := part.result
		if result.Timeline == nil {
			result.Begin, result.End, result.interval, result.Timeline = own.Begin, own.End, own.interval, own.Timeline
		} else {
			for i := range own.Timeline {
				result.Timeline[i].Add(&own.Timeline[i])
			}
		}
		result.NeverFits += own.NeverFits
		result.tally.addAll(&own.tally, subject)
		for i, finding := range part.findings() {
			findings[i] = append(findings[i], finding)
		}
	})
	var merged []audit.Finding
	for _, parts := range findings {
		merged = append(merged, audit.Merge(parts...))
	}
	result.finish(merged, func(int) bool { return false })
	return result, err
}

// tally decides all requests under the limits, and counts only allowed and denied.
func (a *apart) tally(ctx context.Context, limits ...store.Limit) (*Tally, error) {
	tally := new(Tally)
	err := a.each(ctx, limits, false, nil, func(part *simulator, subject func(uint32) uint32) {
		tally.addAll(&part.result.tally, subject)
	})
	return tally, err
}

// each decides the parts, several at a time, and passes each to done, one at a time. A part numbers its subjects
// from 0; subject returns their number in the whole. An error means that ctx has ended; then some parts are
// missing.
func (a *apart) each(ctx context.Context, limits []store.Limit, audited bool, progress func(decided, denied int64),
	done func(part *simulator, subject func(uint32) uint32)) error {
	parts := a.parts()
	var mu sync.Mutex
	var next atomic.Int64
	var decided, denied int64
	var working panics.Group
	for range min(parts, runtime.GOMAXPROCS(0)) {
		working.Go(func() {
			for part := int(next.Add(1)) - 1; part < parts && ctx.Err() == nil; part = int(next.Add(1)) - 1 {
				s := a.part(ctx, limits, audited, part, parts, func(more, moreDenied int64) {
					mu.Lock()
					defer mu.Unlock()
					decided, denied = decided+more, denied+moreDenied
					if progress != nil {
						progress(decided, denied)
					}
				})
				mu.Lock()
				done(s, func(own uint32) uint32 { return own*uint32(parts) + uint32(part) })
				mu.Unlock()
			}
		})
	}
	if panicked := working.Wait(); panicked != nil {
		panic(panicked) // a panic of a goroutine, for whoever recovers here
	}
	return ctx.Err()
}

// part decides the requests of every subject whose number modulo parts is part.
func (a *apart) part(ctx context.Context, limits []store.Limit, audited bool, part, parts int,
	tell func(decided, denied int64)) *simulator {
	size := (a.values.Len() - part + parts - 1) / parts
	counts := make([]int, len(limits))
	requests, keys := make([]store.Request, len(limits)), make([]uint32, len(limits))
	for i, limit := range limits {
		counts[i] = 1 // since they come one after the other
		requests[i] = store.Request{Key: store.Key{Subject: "subject", Name: limit.DefaultName()}, Limit: limit}
	}
	s := emptySimulator(counts...)
	s.result.tally.counts = make([]tallied, size)
	if audited {
		auditors := make([]*audit.Auditor, len(limits))
		for i, limit := range limits {
			auditors[i] = audit.New()
			if size > 0 {
				auditors[i].SetLimits(uint32(size), limit)
			}
		}
		s.begin(a.trace, auditors)
	}
	var decided, denied int64
	for own := range uint32(size) {
		for j := range keys {
			keys[j], s.states[j][0] = own, store.State{}
		}
		from, to := a.of(own*uint32(parts) + uint32(part))
		for i := from; i < to; i++ {
			r := trace.Request{At: a.instants[i], Cost: 1}
			if a.costs != nil {
				r.Cost = a.costs[i]
			}
			if len(limits) == 1 {
				s.decideOne(&r, own, &limits[0])
			} else {
				_ = s.decide(ctx, &r, own, requests, keys) // only stores return errors
			}
			if decided++; decided%checkEvery == 0 {
				if ctx.Err() != nil {
					return s
				}
				now := s.result.tally.Denied()
				tell(checkEvery, now-denied)
				denied = now
			}
		}
	}
	tell(decided%checkEvery, s.result.tally.Denied()-denied)
	return s
}

// decideOne decides a request of a key under its only limit, of the subject whose state is the only one. It is decide without what
// only a store or several limits need, since this is nearly all that a simulation does.
func (s *simulator) decideOne(r *trace.Request, key uint32, limit *store.Limit) {
	cost, capacity, state := int64(r.Cost), limit.Capacity(), &s.states[0][0]
	if cost > capacity {
		s.result.NeverFits++
	}
	used := state.Used(r.At)
	allowed := used+cost <= capacity
	if allowed {
		state.Charge(*limit, cost, r.At)
	}
	s.result.tally.Add(key, allowed)
	if !s.audited {
		return
	}
	s.countAt(r.At, allowed)
	s.auditors[0].Count(audit.Observation{Key: key, At: r.At, Cost: cost, Allowed: allowed, Charged: allowed}, used)
}

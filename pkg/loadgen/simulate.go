package loadgen

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/loadgen/audit"
	"github.com/limitctl/limitctl/pkg/loadgen/trace"
)

// Candidate is a limit, or several decided together, to try on a trace.
type Candidate struct {
	// Fields are which of the trace's fields make who is limited, as indexes into
	// [trace.Trace.Fields].
	Fields []int
	// Requests returns what to decide, together and always in the same order, for a
	// subject with those values. Subjects whose requests have a key in common share
	// its state; otherwise the keys mean nothing. The costs are filled in later.
	Requests func(subject []string) ([]limiter.Request, error)
}

// UnderLimit returns the candidate of one limit, by all of the fields together.
func UnderLimit(limit limiter.Limit, fields ...int) Candidate {
	return Candidate{Fields: fields, Requests: func(subject []string) ([]limiter.Request, error) {
		return []limiter.Request{{Key: limiter.Key{Subject: strings.Join(subject, "\x00")}, Limit: limit}}, nil
	}}
}

// UnderPolicy returns the candidate of the limits of a policy, with its overrides and
// shadows. Each of the attributes is the value of the field of the same index, and
// missing where that is empty.
func UnderPolicy(p *policy.Policy, attributes []string, fields ...int) Candidate {
	return Candidate{Fields: fields, Requests: func(subject []string) ([]limiter.Request, error) {
		given := policy.Attributes{}
		for i, value := range subject {
			if value != "" {
				given[attributes[i]] = value
			}
		}
		return p.Requests(given, 1)
	}}
}

// Clock is the clock of a store in a simulation: it shows the instant of the request
// that is being decided. It is safe for concurrent use.
type Clock struct{ at atomic.Int64 }

// Now returns the time that the clock shows.
func (c *Clock) Now() time.Time { return limiter.Instant(c.at.Load()).Time() }

// SimulateOptions are what a simulation can do without.
type SimulateOptions struct {
	// Store decides instead of the pure Go algorithms, which it is compared with.
	// It must hold nothing yet, and decide by Clock.
	Store limiter.Store
	Clock *Clock
	// Progress, if set, is told now and then how many requests have been decided, and
	// how many of them were denied.
	Progress func(decided, denied int64)
}

// Simulation is what a candidate would have done to the requests of a trace.
type Simulation struct {
	// Subjects are who was limited, the values of the candidate's fields, by the
	// numbers that Tally has for them.
	Subjects [][]string
	Tally    Tally
	// NeverFits is how many of the denied requests cost more than a limit ever
	// allows at once. A store would not have taken them for requests.
	NeverFits int64
	// Limits are the limits decided together.
	Limits []LimitResult
	// Begin and End are the instants of the first and the last request.
	Begin, End limiter.Instant
	// Timeline is what happened in each Interval since Begin, up to 200 of them.
	Timeline []IntervalCount
	Interval time.Duration
	// Disagreements is how many requests the store decided differently than Go, in
	// anything of the decision, and FirstDisagreements the first few.
	Disagreements      int64
	FirstDisagreements []Disagreement
	// StoreKeys are the keys that a store may have something of after the simulation.
	StoreKeys []limiter.Key
}

// LimitResult is what one of the limits decided together did.
type LimitResult struct {
	// Denied is how many requests the limit denied, or would have as a shadow.
	Denied int64
	Audit  audit.Finding
	// MixedKeys is how many keys were under different limits in turn, since what
	// chooses an override is not a part of the key. The audit holds them against
	// the first.
	MixedKeys int64
}

// IntervalCount is what happened in an interval, in requests.
type IntervalCount struct{ Allowed, Denied int64 }

// Disagreement is a decision of a store that is not Go's.
type Disagreement struct {
	Request   int64 // its number in the order of instants, the first being 1
	At        limiter.Instant
	Subject   uint32
	Limit     int // of those decided together, the first being 0
	Store, Go limiter.Decision
}

// keptDisagreements is how many are described.
const keptDisagreements = 3

// checkEvery is how many requests are decided before asking whether to go on.
const checkEvery = 1 << 12

// Simulate decides the requests of a trace under a candidate, each at its own instant.
// A request of more units than a limit ever allows at once is denied. After an error
// the Simulation is what was done until then; what a candidate's limits have wrong is
// a [limiter.ErrInvalid].
func Simulate(ctx context.Context, t *trace.Trace, c Candidate, options SimulateOptions) (*Simulation, error) {
	s, err := newSimulator(t, c)
	if err != nil {
		return new(Simulation), err
	}
	s.begin(t)
	s.options = options
	if options.Store != nil {
		s.nameKeys()
	}
	err = s.run(ctx, t)
	if !s.wrote {
		s.result.StoreKeys = nil
	}
	for i := range s.rules {
		s.result.Limits[i].Audit = s.rules[i].auditor.Finding()
	}
	return s.result, err
}

// simulator is a simulation under way.
type simulator struct {
	options SimulateOptions
	result  *Simulation
	rules   []rule
	// subjectOf says which subject of the candidate one of the trace is.
	subjectOf []uint32
	// requests and keys have what each subject asks of each rule, one after the other.
	requests []limiter.Request
	keys     []uint32
	states   []*limiter.State // of the request that is decided
	ours     []limiter.Decision
	theirs   []limiter.Decision
	audited  bool
	wrote    bool // the store may hold something now
}

// rule is one of the limits decided together, and its keys.
type rule struct {
	index   map[limiter.Key]uint32
	limits  []limiter.Limit // by key, the first that it was under
	mixed   map[uint32]bool
	states  []limiter.State // by key
	auditor *audit.Auditor
}

// newSimulator finds out what each subject asks.
func newSimulator(t *trace.Trace, c Candidate) (*simulator, error) {
	s := &simulator{result: new(Simulation), subjectOf: make([]uint32, len(t.Subjects))}
	known := map[string]uint32{}
	var joined []byte
	for i, all := range t.Subjects {
		values := make([]string, len(c.Fields))
		joined = joined[:0]
		for n, field := range c.Fields {
			values[n] = all[field]
			joined = strconv.AppendInt(joined, int64(len(values[n])), 10)
			joined = append(append(joined, ':'), values[n]...)
		}
		subject, found := known[string(joined)]
		if !found {
			subject = uint32(len(s.result.Subjects))
			known[string(joined)] = subject
			s.result.Subjects = append(s.result.Subjects, values)
			if err := s.addSubject(c, values); err != nil {
				return nil, err
			}
		}
		s.subjectOf[i] = subject
	}
	for i := range s.rules {
		r := &s.rules[i]
		r.states = make([]limiter.State, len(r.limits))
		s.result.Limits = append(s.result.Limits, LimitResult{MixedKeys: int64(len(r.mixed))})
	}
	s.states = make([]*limiter.State, len(s.rules))
	s.ours = make([]limiter.Decision, len(s.rules))
	s.theirs = make([]limiter.Decision, len(s.rules))
	return s, nil
}

// addSubject adds what the next subject asks.
func (s *simulator) addSubject(c Candidate, values []string) error {
	requests, err := c.Requests(values)
	if err != nil {
		return err
	}
	if s.rules == nil {
		s.rules = make([]rule, len(requests))
		for i := range s.rules {
			s.rules[i] = rule{index: map[limiter.Key]uint32{}, mixed: map[uint32]bool{}, auditor: audit.New()}
		}
	}
	for i := range requests {
		req, r := &requests[i], &s.rules[i]
		if req.Limit, err = req.Limit.Normalize(); err != nil {
			return err
		}
		key, found := r.index[req.Key]
		switch {
		case !found:
			key = uint32(len(r.limits))
			r.index[req.Key] = key
			r.limits = append(r.limits, req.Limit)
		case r.limits[key] != req.Limit:
			r.mixed[key] = true
		}
		s.requests = append(s.requests, *req)
		s.keys = append(s.keys, key)
	}
	return nil
}

// begin readies what is counted along the way.
func (s *simulator) begin(t *trace.Trace) {
	s.audited = true
	for i := range s.rules {
		r := &s.rules[i]
		for key, limit := range r.limits {
			r.auditor.SetLimit(uint32(key), limit)
		}
	}
	if n := len(t.Requests); n > 0 {
		s.result.Begin, s.result.End = t.Requests[0].At, t.Requests[n-1].At
	}
	span := s.result.End.Time().Sub(s.result.Begin.Time())
	s.result.Interval = timelineInterval(span)
	s.result.Timeline = make([]IntervalCount, span/s.result.Interval+1)
}

// maxIntervals bounds a timeline.
const maxIntervals = 200

// timelineInterval returns the shortest round interval of which a span has few enough.
func timelineInterval(span time.Duration) time.Duration {
	const day = 24 * time.Hour
	intervals := []time.Duration{
		time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond,
		100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond,
		time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 15 * time.Second, 30 * time.Second,
		time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute,
		time.Hour, 2 * time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour, day, 2 * day, 5 * day, 10 * day, 30 * day,
	}
	for _, interval := range intervals {
		if span < maxIntervals*interval {
			return interval
		}
	}
	return (span/maxIntervals/day + 1) * day
}

// nameKeys gives the keys names that any store takes. Those that a limit's subject
// has in common stay in one slot of a Cluster.
func (s *simulator) nameKeys() {
	type place struct {
		rule int
		key  uint32
	}
	named := map[place]limiter.Key{}
	subjects := map[string]int{}
	for i := range s.requests {
		rule := i % len(s.rules)
		at, req := place{rule, s.keys[i]}, &s.requests[i]
		key, found := named[at]
		if !found {
			number, known := subjects[req.Key.Subject]
			if !known {
				number = len(subjects)
				subjects[req.Key.Subject] = number
			}
			key = limiter.Key{Subject: strconv.Itoa(number), Name: strconv.Itoa(rule) + ":" + strconv.Itoa(int(at.key))}
			named[at] = key
			s.result.StoreKeys = append(s.result.StoreKeys, key)
		}
		req.Key = key
	}
}

func (s *simulator) run(ctx context.Context, t *trace.Trace) error {
	result, n := s.result, len(s.rules)
	for i := range t.Requests {
		if i%checkEvery == 0 {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if s.options.Progress != nil {
				s.options.Progress(int64(i), result.Tally.Denied())
			}
		}
		r := &t.Requests[i]
		subject := s.subjectOf[r.Subject]
		first := int(subject) * n
		reqs, keys := s.requests[first:first+n], s.keys[first:first+n]
		fits := true
		for j := range reqs {
			reqs[j].Cost = int64(r.Cost)
			s.states[j] = &s.rules[j].states[keys[j]]
			fits = fits && (reqs[j].Shadow || reqs[j].Cost <= reqs[j].Limit.Capacity())
		}
		limiter.Decide(limiter.Take, reqs, s.states, s.ours, r.At)
		decisions := s.ours
		if !fits {
			result.NeverFits++
		} else if s.options.Store != nil {
			s.options.Clock.at.Store(int64(r.At))
			err := s.options.Store.Decide(ctx, limiter.Take, reqs, s.theirs)
			s.wrote = s.wrote || !errors.Is(err, limiter.ErrUnavailable) && !errors.Is(err, limiter.ErrRefused)
			if err != nil {
				return err
			}
			decisions = s.theirs
			s.compare(int64(i), r.At, subject)
		}
		allowed := limiter.AllAllowed(decisions)
		result.Tally.Add(subject, allowed)
		if s.audited {
			s.observe(r, keys, decisions, allowed)
		}
	}
	return nil
}

// compare holds the store's decisions against Go's.
func (s *simulator) compare(i int64, at limiter.Instant, subject uint32) {
	disagrees := false
	for j := range s.ours {
		if s.ours[j] == s.theirs[j] {
			continue
		}
		if !disagrees && len(s.result.FirstDisagreements) < keptDisagreements {
			s.result.FirstDisagreements = append(s.result.FirstDisagreements, Disagreement{i + 1, at, subject, j, s.theirs[j], s.ours[j]})
		}
		disagrees = true
	}
	if disagrees {
		s.result.Disagreements++
	}
}

// observe tells the audits and the timeline of a decided request.
func (s *simulator) observe(r *trace.Request, keys []uint32, decisions []limiter.Decision, allowed bool) {
	interval := &s.result.Timeline[int64(r.At-s.result.Begin)/s.result.Interval.Microseconds()]
	if allowed {
		interval.Allowed++
	} else {
		interval.Denied++
	}
	for j := range decisions {
		d := &decisions[j]
		if !d.Allowed {
			s.result.Limits[j].Denied++
		}
		s.rules[j].auditor.Observe(audit.Observation{
			Key: keys[j], At: r.At, Cost: int64(r.Cost), Allowed: d.Allowed, Charged: allowed && d.Allowed,
		})
	}
}

package loadgen

import (
	"context"
	"errors"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/loadgen/audit"
	"github.com/limitctl/limitctl/pkg/loadgen/trace"
)

// SimulateOptions are the optional settings of a simulation.
type SimulateOptions struct {
	// Store, if set, decides, and its decisions are compared with those of the Go algorithms. It must be empty, and
	// decide by Clock.
	Store store.Store
	Clock *Clock
	// Wrapped: something wraps Store, so it may decide differently from Go. Its decisions are audited by their own
	// instants, which can be up to Skew before those of their requests, and also by the clock.
	Wrapped bool
	Skew    time.Duration
	// Held, if set, returns how many units of a key under a limit can be held in advance. The audit excuses denials
	// that they explain.
	Held func(store.Limit) int64
	// Progress, if set, is called from time to time with the number of decided requests, and of those that were
	// denied.
	Progress func(decided, denied int64)
}

// Simulation is the result of a candidate for the requests of a trace.
type Simulation struct {
	// Subjects are the limited subjects, the values of the candidate's fields, by their numbers in Tally.
	Subjects *trace.Subjects
	Tally    Tally
	// Keys counts, for each key of the limits that can deny, the requests that its own limit denied, and those that all
	// limits allowed. [Simulation.OwnerOf] returns the limit and a subject of a key. It is empty if no subjects share keys; then
	// Tally has everything.
	Keys Tally
	// NeverFits counts the denied requests that cost more than a limit ever allows at once. A store would have
	// refused them as mistakes.
	NeverFits int64
	// Limits are the results of the limits.
	Limits []LimitResult
	// Begin and End are the instants of the first and the last request.
	Begin, End store.Instant
	// Timeline has the counts of each Interval since Begin, at most 200.
	Timeline []IntervalCount
	Interval time.Duration
	// ByDecider counts the requests of each decider, if the store was wrapped.
	ByDecider map[store.Decider]IntervalCount
	// Differently counts the requests that a wrapped store allowed and Go did not, and the other way round.
	Differently IntervalCount
	// Disagreements counts the requests that the store decided differently from Go, in any part of the decision,
	// and FirstDisagreements are the first few.
	Disagreements      int64
	FirstDisagreements []Disagreement
	// StoreKeys are the keys of which a store can hold something after the simulation.
	StoreKeys []store.Key

	population *TracePopulation // of the keys of Keys
}

// Held is [Population.Held] for the subjects of the log.
func (s *Simulation) Held(limit int, held func(store.Limit) int64) func(store.Limit) int64 {
	return s.population.Held(limit, held)
}

// OwnerOf returns the limit of a key of Keys, and one of the subjects that have it.
func (s *Simulation) OwnerOf(key uint32) (limit int, subject uint32) {
	for limit, owners := range s.population.owners {
		if int(key) < len(owners) {
			return limit, owners[key] / uint32(s.population.limits)
		}
		key -= uint32(len(owners))
	}
	panic("no such key")
}

// LimitResult is the result of one of the limits.
type LimitResult struct {
	// Denied counts the requests that the limit denied, or as a shadow would have denied.
	Denied int64
	Audit  audit.Finding
	// ByClock is the audit by the instants of the requests, if the store was wrapped. Only its worst windows mean
	// anything.
	ByClock audit.Finding
	// MixedKeys counts the keys that had different limits in turn, because the key does not contain what selects an
	// override. The audit judges them by the first limit.
	MixedKeys int64
}

// IntervalCount counts the requests of an interval.
type IntervalCount struct{ Allowed, Denied int64 }

// Disagreement is a decision of a store that differs from Go's.
type Disagreement struct {
	Request   int64 // its number in the order of instants, from 1
	At        store.Instant
	Subject   uint32
	Limit     int // the number of the limit, from 0
	Store, Go store.Decision
}

// keptDisagreements is the number of disagreements that are described.
const keptDisagreements = 3

// checkEvery is the number of requests between two checks whether to go on.
const checkEvery = 1 << 12

// Simulate decides the requests of a trace under a candidate, each at its own instant. It denies a request that
// costs more than a limit ever allows at once. After an error the Simulation is what was done until then. A wrong
// limit of the candidate is a [store.ErrInvalid].
func Simulate(ctx context.Context, t *trace.Trace, c Candidate, options SimulateOptions) (*Simulation, error) {
	if c.limits != nil && options.Store == nil {
		a, err := newApart(t, &c)
		if err != nil {
			return new(Simulation), err
		}
		return a.simulate(ctx, a.limits, options.Progress)
	}
	population, err := c.Population(t)
	if err != nil {
		return new(Simulation), err
	}
	s := newSimulator(population)
	s.options = options
	s.begin(t, s.population.auditors(s.options.Held))
	err = s.run(ctx, t)
	s.answers.fold(store.Instant(idle))
	if s.wrote {
		s.result.StoreKeys = s.population.AllKeys()
	}
	for i, auditor := range s.auditors {
		s.result.Limits[i].Audit = auditor.Finding()
		if options.Wrapped {
			s.result.Limits[i].ByClock = s.byClock[i].Finding()
		}
	}
	return s.result, err
}

// simulator is a simulation under way.
type simulator struct {
	options    SimulateOptions
	result     *Simulation
	population *TracePopulation
	own        []int64          // see [Population]
	states     [][]store.State  // of each limit's keys; of one at a time if population is nil
	auditors   []*audit.Auditor // of each limit
	// For a wrapped store: its answers in the order of their instants, and audits by the clock.
	answers clockAudit
	byClock []*audit.Auditor
	current []*store.State // of the request under way
	ours    []store.Decision
	theirs  []store.Decision
	told    audit.Figures // of the decision that is observed
	audited bool
	under   *IntervalCount // the interval of the request before
	since   store.Instant  // its beginning
	until   store.Instant  // its end
	wrote   bool           // the store can hold something now
}

// newSimulator returns a simulator of a population that has used nothing yet.
func newSimulator(population *TracePopulation) *simulator {
	var keys []int
	for limit := range population.Limits() {
		keys = append(keys, len(population.owners[limit]))
	}
	s := emptySimulator(keys...)
	s.own = population.own
	s.population, s.result.population, s.result.Subjects = population, population, population.Values
	for limit := range s.result.Limits {
		s.result.Limits[limit].MixedKeys = int64(population.MixedKeys(limit))
	}
	return s
}

// emptySimulator returns a simulator of limits with that many keys each, all unused.
func emptySimulator(keys ...int) *simulator {
	limits := len(keys)
	s := &simulator{
		result:  &Simulation{Limits: make([]LimitResult, limits)},
		current: make([]*store.State, limits), ours: make([]store.Decision, limits), theirs: make([]store.Decision, limits),
	}
	for _, n := range keys {
		s.states = append(s.states, make([]store.State, n))
	}
	return s
}

// begin prepares the counts.
func (s *simulator) begin(t *trace.Trace, auditors []*audit.Auditor) {
	s.audited = true
	s.auditors = auditors
	if s.options.Wrapped {
		s.answers.auditors = s.auditors
		s.byClock = s.population.auditors(s.options.Held)
		s.result.ByDecider = map[store.Decider]IntervalCount{}
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

// timelineInterval returns the shortest round interval that divides a span into few enough parts.
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

func (s *simulator) run(ctx context.Context, t *trace.Trace) error {
	result := s.result
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
		subject := s.population.SubjectOf(r.Subject)
		if err := s.decide(ctx, int64(i), r, subject, s.population.Requests(subject), s.population.KeyIndexes(subject)); err != nil {
			return err
		}
	}
	return nil
}

// decide decides request i, of a subject with keys of these indexes.
func (s *simulator) decide(ctx context.Context, i int64, r *trace.Request, subject uint32, reqs []store.Request, keys []uint32) error {
	fits := true
	for j := range reqs {
		reqs[j].Cost = costOf(s.own, j, int64(r.Cost))
		s.current[j] = &s.states[j][0]
		if s.population != nil {
			s.current[j] = &s.states[j][keys[j]]
		}
		fits = fits && !reqs[j].NeverFits(store.Take)
	}
	store.Decide(store.Take, reqs, s.current, s.ours, r.At)
	decisions := s.ours
	if !fits {
		s.result.NeverFits++
	} else if s.options.Store != nil {
		s.options.Clock.set(r.At)
		err := s.options.Store.Decide(ctx, store.Take, reqs, s.theirs)
		s.wrote = s.wrote || !errors.Is(err, store.ErrUnavailable) && !errors.Is(err, store.ErrRefused)
		if err != nil {
			return err
		}
		decisions = s.theirs
		if s.options.Wrapped {
			s.count()
		} else {
			s.compare(i, r.At, subject)
		}
	}
	allowed := store.AllAllowed(decisions)
	s.result.Tally.Add(subject, allowed)
	if s.population != nil {
		first := uint32(0) // of the limit's keys
		for j := range decisions {
			if !reqs[j].Shadow && (allowed || !decisions[j].Allowed) {
				s.result.Keys.Add(first+keys[j], allowed)
			}
			first += uint32(len(s.states[j]))
		}
	}
	if s.audited {
		s.observe(r, reqs, keys, decisions, allowed)
	}
	return nil
}

// count counts by decider, and the decisions that differ from Go.
func (s *simulator) count() {
	by := deciderOf(s.theirs)
	counts := s.result.ByDecider[by]
	ours, theirs := store.AllAllowed(s.ours), store.AllAllowed(s.theirs)
	switch {
	case theirs && !ours:
		s.result.Differently.Allowed++
	case ours && !theirs:
		s.result.Differently.Denied++
	}
	if theirs {
		counts.Allowed++
	} else {
		counts.Denied++
	}
	s.result.ByDecider[by] = counts
}

// compare compares the store's decisions with those of Go.
func (s *simulator) compare(i int64, at store.Instant, subject uint32) {
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

// countAt adds a decided request to the timeline.
func (s *simulator) countAt(at store.Instant, allowed bool) {
	if at >= s.until || at < s.since || s.under == nil { // the subject before can have later requests
		width := s.result.Interval.Microseconds()
		number := int64(at-s.result.Begin) / width
		s.since = s.result.Begin + store.Instant(number*width)
		s.under, s.until = &s.result.Timeline[number], s.since+store.Instant(width)
	}
	if allowed {
		s.under.Allowed++
	} else {
		s.under.Denied++
	}
}

// observe adds a decided request to the audits and the timeline.
func (s *simulator) observe(r *trace.Request, reqs []store.Request, keys []uint32, decisions []store.Decision, allowed bool) {
	s.countAt(r.At, allowed)
	var told *audit.Figures // of a store; Go's figures are the truth
	if s.options.Store != nil {
		told = &s.told
	}
	for j := range decisions {
		d := &decisions[j]
		if !d.Allowed {
			s.result.Limits[j].Denied++
		}
		o := audit.Observation{Key: keys[j], At: r.At, Cost: costOf(s.own, j, int64(r.Cost)), Leave: reqs[j].Leave, Allowed: d.Allowed,
			Charged: allowed && d.Allowed}
		if !s.options.Wrapped {
			if told != nil {
				*told = audit.Figures{
					Used: d.Used, Remaining: d.Remaining, RetryAfter: d.RetryAfter, ResetAfter: d.ResetAfter, Delay: d.Delay,
				}
				o.Reported = told
			}
			s.auditors[j].Observe(o)
			continue
		}
		s.byClock[j].Observe(o)
		one := answer{at: d.At, key: keys[j], cost: uint32(o.Cost), leave: uint32(o.Leave), limit: uint8(j),
			kind: kindOf(d.Allowed, allowed)}
		one.tell(d, deciderOf(decisions) == store.DecidedByStore)
		s.answers.add([]answer{one})
	}
	if len(s.answers.pending) > checkEvery {
		s.answers.fold(r.At - store.Instant(s.options.Skew.Microseconds()))
	}
}

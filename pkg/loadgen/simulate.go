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
	// Store decides instead of the pure Go algorithms, which it is compared with.
	// It must hold nothing yet, and decide by Clock.
	Store store.Store
	Clock *Clock
	// Wrapped: Store is allowed to decide differently than Go, because something wraps it. Its
	// decisions are audited by their own instants, which may be up to Skew before those of
	// their requests, and by the clock, too.
	Wrapped bool
	Skew    time.Duration
	// Held, if set, says how many units of a key under a limit may be held ahead. The audit
	// excuses denials that they explain.
	Held func(store.Limit) int64
	// Progress, if set, is told now and then how many requests have been decided, and
	// how many of them were denied.
	Progress func(decided, denied int64)
}

// Simulation is what a candidate would have done to the requests of a trace.
type Simulation struct {
	// Subjects are who was limited, the values of the candidate's fields, by the
	// numbers that Tally has for them.
	Subjects *trace.Subjects
	Tally    Tally
	// Keys is how many requests each key was allowed and denied by its own limit, for the limits
	// that can deny. [Simulation.OwnerOf] says whose a key is. It is empty where every subject
	// has keys of its own, of which Tally tells all.
	Keys Tally
	// NeverFits is how many of the denied requests cost more than a limit ever allows at
	// once. A store would have refused them as mistakes.
	NeverFits int64
	// Limits are the limits decided together.
	Limits []LimitResult
	// Begin and End are the instants of the first and the last request.
	Begin, End store.Instant
	// Timeline is what happened in each Interval since Begin, up to 200 of them.
	Timeline []IntervalCount
	Interval time.Duration
	// ByDecider is how many requests each decider answered, if the store was wrapped.
	ByDecider map[store.Decider]IntervalCount
	// Differently is how many requests were allowed by a wrapped store and not by Go, and
	// the other way round.
	Differently IntervalCount
	// Disagreements is how many requests the store decided differently than Go, in
	// anything of the decision, and FirstDisagreements the first few.
	Disagreements      int64
	FirstDisagreements []Disagreement
	// StoreKeys are the keys that a store may have something of after the simulation.
	StoreKeys []store.Key

	population *TracePopulation // that Keys is about
}

// OwnerOf says which of the limits a key of Keys is of, and one of the subjects that have it.
func (s *Simulation) OwnerOf(key uint32) (limit int, subject uint32) {
	for limit, owners := range s.population.owners {
		if int(key) < len(owners) {
			return limit, owners[key] / uint32(s.population.limits)
		}
		key -= uint32(len(owners))
	}
	panic("no such key")
}

// LimitResult is what one of the limits decided together did.
type LimitResult struct {
	// Denied is how many requests the limit denied, or would have as a shadow.
	Denied int64
	Audit  audit.Finding
	// ByClock is the audit by the instants of the requests, if the store was wrapped. Only its
	// worst windows mean anything.
	ByClock audit.Finding
	// MixedKeys is how many keys were under different limits in turn, since what chooses
	// an override is not a part of the key. The audit judges them by the first limit.
	MixedKeys int64
}

// IntervalCount is what happened in an interval, in requests.
type IntervalCount struct{ Allowed, Denied int64 }

// Disagreement is a decision of a store that is not Go's.
type Disagreement struct {
	Request   int64 // its number in the order of instants, the first being 1
	At        store.Instant
	Subject   uint32
	Limit     int // of those decided together, the first being 0
	Store, Go store.Decision
}

// keptDisagreements is how many are described.
const keptDisagreements = 3

// checkEvery is how many requests are decided before asking whether to go on.
const checkEvery = 1 << 12

// Simulate decides the requests of a trace under a candidate, each at its own instant.
// A request of more units than a limit ever allows at once is denied. After an error
// the Simulation is what was done until then; what a candidate's limits have wrong is
// a [store.ErrInvalid].
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
	states     [][]store.State  // of each limit's keys
	auditors   []*audit.Auditor // of each limit
	// Of a wrapped store: its answers in the order of their instants, and audits by the clock.
	answers clockAudit
	byClock []*audit.Auditor
	current []*store.State // of the request that is decided
	ours    []store.Decision
	theirs  []store.Decision
	told    audit.Figures // by the decision that is observed
	audited bool
	wrote   bool // the store may hold something now
}

// newSimulator returns a simulator of what subjects ask, who have used nothing yet.
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

// emptySimulator returns a simulator of limits with as many keys each, none of which were used.
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

// begin readies what is counted along the way.
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

// timelineInterval returns the shortest round interval that cuts a span into few enough.
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

// decide decides the i-th request, which a subject makes about the keys of those indexes.
func (s *simulator) decide(ctx context.Context, i int64, r *trace.Request, subject uint32, reqs []store.Request, keys []uint32) error {
	fits := true
	for j := range reqs {
		reqs[j].Cost = costOf(s.own, j, int64(r.Cost))
		s.current[j] = &s.states[j][keys[j]]
		fits = fits && (reqs[j].Shadow || reqs[j].Cost <= reqs[j].Limit.Capacity())
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
			if !reqs[j].Shadow {
				s.result.Keys.Add(first+keys[j], decisions[j].Allowed)
			}
			first += uint32(len(s.states[j]))
		}
	}
	if s.audited {
		s.observe(r, keys, decisions, allowed)
	}
	return nil
}

// count counts who decided, and what would have been decided otherwise.
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

// observe tells the audits and the timeline of a decided request.
func (s *simulator) observe(r *trace.Request, keys []uint32, decisions []store.Decision, allowed bool) {
	interval := &s.result.Timeline[int64(r.At-s.result.Begin)/s.result.Interval.Microseconds()]
	if allowed {
		interval.Allowed++
	} else {
		interval.Denied++
	}
	var told *audit.Figures // by a store; what Go says is the truth
	if s.options.Store != nil {
		told = &s.told
	}
	for j := range decisions {
		d := &decisions[j]
		if !d.Allowed {
			s.result.Limits[j].Denied++
		}
		o := audit.Observation{Key: keys[j], At: r.At, Cost: costOf(s.own, j, int64(r.Cost)), Allowed: d.Allowed, Charged: allowed && d.Allowed}
		if !s.options.Wrapped {
			if told != nil {
				*told = audit.Figures{
					Used: d.Used, Remaining: d.Remaining, RetryAfter: d.RetryAfter, ResetAfter: d.ResetAfter, Delay: d.Delay,
				}
				o.Told = told
			}
			s.auditors[j].Observe(o)
			continue
		}
		s.byClock[j].Observe(o)
		one := answer{at: d.At, key: keys[j], cost: uint32(o.Cost), limit: uint8(j), kind: kindOf(d.Allowed, allowed)}
		one.tell(d, deciderOf(decisions) == store.DecidedByStore)
		s.answers.add([]answer{one})
	}
	if len(s.answers.pending) > checkEvery {
		s.answers.fold(r.At - store.Instant(s.options.Skew.Microseconds()))
	}
}

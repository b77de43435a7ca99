package loadgen

import (
	"cmp"
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/loadgen/audit"
	"github.com/limitctl/limitctl/pkg/loadgen/trace"
)

// SimulateOptions are the optional settings of a simulation.
type SimulateOptions struct {
	// Store, if set, decides instead of the Go algorithms, such as a store with wrappers around it. It must be empty, and
	// decide by Clock. [Simulation].AllowedBesides and DeniedBesides count what it decided otherwise.
	Store store.Store
	Clock *Clock
	// Progress, if set, is called from time to time with the number of decided requests, and of those that were
	// denied.
	Progress func(decided, denied int64)
}

// Simulation is the result of a candidate for the requests of a trace.
type Simulation struct {
	Result
	// Subjects are the limited subjects, the values of the candidate's fields, by their numbers in the Tally.
	Subjects *trace.Subjects
	// ByKey counts, for each key of the limits that can deny, the requests that its own limit denied, and those that all
	// limits allowed. [Simulation.OwnerOf] returns the limit and a subject of a key. It is empty if no subjects share keys; then
	// the Tally has everything.
	ByKey Tally
	// NeverFits counts the denied requests that cost more than a limit ever allows at once. A store would have
	// refused them as mistakes.
	NeverFits int64
	// MixedKeys counts, for each limit, the keys that had different limits in turn, because the key does not contain what
	// selects an override. The audit judges them by the first limit.
	MixedKeys []int
	// Begin and End are the instants of the first and the last request.
	Begin, End store.Instant
	// AllowedBesides and DeniedBesides count the requests that the store of the options decided so, and Go did not.
	AllowedBesides, DeniedBesides int64

	population *TracePopulation // of the keys of ByKey
	tally      Tally
	interval   time.Duration
}

// OwnerOf returns the limit of a key of ByKey, and one of the subjects that have it.
func (s *Simulation) OwnerOf(key uint32) (limit int, subject uint32) {
	for limit, owners := range s.population.owners {
		if int(key) < len(owners) {
			return limit, owners[key] / uint32(s.population.limits)
		}
		key -= uint32(len(owners))
	}
	panic("no such key")
}

// finish fills in the rest of the result.
func (s *Simulation) finish(findings []audit.Finding, isShadow func(limit int) bool) {
	span := s.End.Time().Sub(s.Begin.Time())
	s.StartedAt, s.DurationMS, s.IntervalMS = s.Begin.Time(), milliseconds(span), s.interval.Milliseconds()
	for i := range s.Timeline {
		s.Timeline[i].OffsetMS = int64(i) * s.IntervalMS
	}
	s.setTally(&s.tally)
	s.Requests, s.Allowed, s.Denied = s.tally.Requests(), s.tally.Allowed(), s.tally.Denied()
	if span > 0 {
		s.ThroughputPerS = float64(s.Requests) / span.Seconds()
	}
	s.setFindings(findings, isShadow, func(int, uint32) string { return "" })
}

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
	s.begin(t, s.population.auditors())
	err = s.run(ctx, t)
	s.result.finish(s.findings(), population.isShadow)
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
	current    []*store.State   // of the request under way
	ours       []store.Decision
	theirs     []store.Decision
	audited    bool
	under      *Interval     // the interval of the request before
	since      store.Instant // its beginning
	until      store.Instant // its end
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
	for limit := range population.Limits() {
		s.result.MixedKeys = append(s.result.MixedKeys, population.MixedKeys(limit))
	}
	return s
}

// emptySimulator returns a simulator of limits with that many keys each, all unused.
func emptySimulator(keys ...int) *simulator {
	limits := len(keys)
	s := &simulator{
		result:  new(Simulation),
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
	if n := len(t.Requests); n > 0 {
		s.result.Begin, s.result.End = t.Requests[0].At, t.Requests[n-1].At
	}
	span := s.result.End.Time().Sub(s.result.Begin.Time())
	s.result.interval = timelineInterval(span)
	s.result.Timeline = make([]Interval, span/s.result.interval+1)
}

// findings are those of the audits.
func (s *simulator) findings() (all []audit.Finding) {
	for _, auditor := range s.auditors {
		all = append(all, auditor.Finding())
	}
	return all
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
				s.options.Progress(int64(i), result.tally.Denied())
			}
		}
		r := &t.Requests[i]
		subject := s.population.SubjectOf(r.Subject)
		if err := s.decide(ctx, r, subject, s.population.Requests(subject), s.population.KeyIndexes(subject)); err != nil {
			return err
		}
	}
	return nil
}

// decide decides a request of a subject with keys of these indexes.
func (s *simulator) decide(ctx context.Context, r *trace.Request, subject uint32, reqs []store.Request, keys []uint32) error {
	fits := true
	for j := range reqs {
		reqs[j].Cost = costOf(s.own, j, int64(r.Cost))
		s.current[j] = &s.states[j][0]
		if s.population != nil {
			s.current[j] = &s.states[j][keys[j]]
		}
		fits = fits && !reqs[j].NeverFits(store.Take)
	}
	if _, err := store.Decide(store.Take, reqs, s.current, s.ours, nil, r.At); err != nil {
		return err
	}
	decisions := s.ours
	if !fits {
		s.result.NeverFits++
	} else if s.options.Store != nil {
		s.options.Clock.set(r.At)
		if err := s.options.Store.Decide(ctx, store.Take, reqs, s.theirs); err != nil {
			return err
		}
		decisions = s.theirs
		switch ours, theirs := store.AllAllowed(s.ours), store.AllAllowed(s.theirs); {
		case theirs && !ours:
			s.result.AllowedBesides++
		case ours && !theirs:
			s.result.DeniedBesides++
		}
	}
	allowed := store.AllAllowed(decisions)
	s.result.tally.Add(subject, allowed)
	if s.population != nil {
		first := uint32(0) // of the limit's keys
		for j := range decisions {
			if !reqs[j].Shadow && (allowed || !decisions[j].Allowed) {
				s.result.ByKey.Add(first+keys[j], allowed)
			}
			first += uint32(len(s.states[j]))
		}
	}
	if s.audited {
		s.observe(r, reqs, keys, decisions, allowed)
	}
	return nil
}

// countAt adds a decided request to the timeline.
func (s *simulator) countAt(at store.Instant, allowed bool) {
	if at >= s.until || at < s.since || s.under == nil { // the subject before can have later requests
		width := s.result.interval.Microseconds()
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
	for j := range decisions {
		d := &decisions[j]
		s.auditors[j].Observe(audit.Observation{Key: keys[j], At: r.At, Cost: costOf(s.own, j, int64(r.Cost)), Leave: reqs[j].Leave,
			Allowed: d.Allowed, Charged: allowed && d.Allowed})
	}
}

// Clock is the clock of a store in a simulation: it shows the instant of the request under way. Now is safe for
// concurrent use.
type Clock struct {
	at     atomic.Int64
	timers []timer // in the order of their instants
}

// timer calls a function at an instant.
type timer struct {
	at store.Instant
	do func()
}

// Now returns the time of the clock.
func (c *Clock) Now() time.Time { return store.Instant(c.at.Load()).Time() }

// Background calls f when the clock has advanced by delay, at once if delay is 0. It is for limiter.Leases.
func (c *Clock) Background(delay time.Duration, f func()) {
	if delay <= 0 {
		f()
		return
	}
	t := timer{store.Instant(c.at.Load() + delay.Microseconds()), f}
	i, _ := slices.BinarySearchFunc(c.timers, t.at+1, func(t timer, at store.Instant) int { return cmp.Compare(t.at, at) })
	c.timers = slices.Insert(c.timers, i, t)
}

// set advances the clock to an instant, and calls the timers until then.
func (c *Clock) set(at store.Instant) {
	for len(c.timers) > 0 && c.timers[0].at <= at {
		t := c.timers[0]
		c.timers = slices.Delete(c.timers, 0, 1)
		c.at.Store(int64(t.at))
		t.do()
	}
	c.at.Store(int64(at))
}

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
	// Store, if set, decides instead of the Go algorithms, such as a store with wrappers around it. It must be empty,
	// and decide by Clock.
	Store store.Store
	Clock *Clock
	// Progress, if set, is called from time to time with the number of decided requests, and of those that were denied.
	Progress func(decided, denied int64)
}

// Simulation is the result of a candidate for the requests of a trace.
type Simulation struct {
	Result
	// Subjects are the limited subjects, the values of the candidate's fields, by their numbers in the Tally.
	Subjects *trace.Subjects
	// ByKey counts, for each key of the limits that can deny, the requests that its own limit denied, and those that
	// all limits allowed. [Simulation.OwnerOf] returns the limit and a subject of a key. It is empty if no subjects
	// share keys; then the Tally has everything.
	ByKey Tally
	// NeverFits counts the denied requests that cost more than a limit ever allows at once. A store would have
	// refused them as mistakes.
	NeverFits int64
	// MixedKeys counts, for each limit, the keys that had different limits in turn, because the key does not contain
	// what selects an override. The audit judges them by the first limit.
	MixedKeys []int
	// Begin and End are the instants of the first and the last request.
	Begin, End store.Instant

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

// begin prepares the timeline of a trace.
func (s *Simulation) begin(t *trace.Trace) {
	if n := len(t.Requests); n > 0 {
		s.Begin, s.End = t.Requests[0].At, t.Requests[n-1].At
	}
	span := s.Begin.Until(s.End)
	s.interval = timelineInterval(span)
	s.Timeline = make([]Interval, span/s.interval+1)
}

// count adds a decided request to the timeline.
func (s *Simulation) count(at store.Instant, allowed bool) {
	under := &s.Timeline[int64(at-s.Begin)/s.interval.Microseconds()]
	if allowed {
		under.Allowed++
	} else {
		under.Denied++
	}
}

// finish fills in the rest of the result.
func (s *Simulation) finish(auditors []*audit.Auditor, isShadow func(limit int) bool) {
	span := s.Begin.Until(s.End)
	s.StartedAt, s.DurationMS, s.IntervalMS = s.Begin.Time(), milliseconds(span), s.interval.Milliseconds()
	for i := range s.Timeline {
		s.Timeline[i].OffsetMS = int64(i) * s.IntervalMS
	}
	s.Tally, s.Keys, s.KeysDenied = &s.tally, s.tally.Keys, s.tally.KeysDenied
	s.Requests, s.Allowed, s.Denied = s.tally.Allowed+s.tally.Denied, s.tally.Allowed, s.tally.Denied
	if span > 0 {
		s.ThroughputPerS = float64(s.Requests) / span.Seconds()
	}
	s.setFindings(findingsOf(auditors), isShadow, func(int, uint32) string { return "" })
}

func findingsOf[A interface{ Finding() audit.Finding }](auditors []A) (all []audit.Finding) {
	for _, auditor := range auditors {
		all = append(all, auditor.Finding())
	}
	return all
}

// checkEvery is the number of requests between two checks whether to go on.
const checkEvery = 1 << 12

// Simulate decides the requests of a trace under a candidate, each at its own instant. It denies a request that
// costs more than a limit ever allows at once. After an error the Simulation is what was done until then. A wrong
// limit of the candidate is a [store.ErrInvalid].
func Simulate(ctx context.Context, t *trace.Trace, c Candidate, options SimulateOptions) (*Simulation, error) {
	if options.Progress == nil {
		options.Progress = func(int64, int64) {}
	}
	if len(c.limits) == 1 && options.Store == nil {
		return simulateAlone(ctx, t, &c, options.Progress)
	}
	population, err := c.Population(t)
	if err != nil {
		return new(Simulation), err
	}
	limits := population.Limits()
	s := &simulator{
		options: options, population: population,
		result:   &Simulation{population: population, Subjects: population.Values},
		auditors: population.auditors(), current: make([]*store.State, limits),
		decisions: make([]store.Decision, limits),
	}
	for limit := range limits {
		s.states = append(s.states, make([]store.State, len(population.owners[limit])))
		s.result.MixedKeys = append(s.result.MixedKeys, population.MixedKeys(limit))
	}
	s.result.begin(t)
	err = s.run(ctx, t)
	s.result.finish(s.auditors, population.isShadow)
	return s.result, err
}

// simulateAlone is Simulate for one limit whose keys no subjects share.
func simulateAlone(ctx context.Context, t *trace.Trace, c *Candidate,
	progress func(decided, denied int64)) (*Simulation, error) {
	s := new(Simulation)
	limit, err := c.limits[0].Normalize()
	if err != nil {
		return s, err
	}
	var requests bySubject
	s.Subjects, requests = groupBySubject(t, c)
	auditor := audit.New()
	for key := range s.Subjects.Len() {
		auditor.SetLimit(uint32(key), limit)
	}
	s.begin(t)
	s.tally, err = requests.decide(ctx, limit, progress, func(r *trace.Request, allowed bool, used int64) {
		if int64(r.Cost) > limit.Capacity() {
			s.NeverFits++
		}
		s.count(r.At, allowed)
		auditor.Count(audit.Observation{Key: r.Subject, At: r.At, Cost: int64(r.Cost), Allowed: allowed,
			Charged: allowed}, used)
	})
	s.finish([]*audit.Auditor{auditor}, func(int) bool { return false })
	return s, err
}

// bySubject is the requests of a trace in the order of their subjects, each subject's in their order. Deciding one
// subject after the other finds its state and its audit in the processor's cache.
type bySubject []trace.Request

// groupBySubject returns the subjects of a candidate, and their requests.
func groupBySubject(t *trace.Trace, c *Candidate) (*trace.Subjects, bySubject) {
	values, subjectOf := t.Subjects.By(c.Fields, c.as)
	next := make([]uint32, values.Len()+1) // where each subject begins, at the index after its own
	subject := func(i int) uint32 {
		if subjectOf == nil {
			return t.Requests[i].Subject
		}
		return subjectOf[t.Requests[i].Subject]
	}
	for i := range t.Requests {
		next[subject(i)+1]++
	}
	for i := 1; i < len(next); i++ {
		next[i] += next[i-1]
	}
	grouped := make(bySubject, len(t.Requests))
	for i, r := range t.Requests {
		r.Subject = subject(i)
		grouped[next[r.Subject]] = r
		next[r.Subject]++
	}
	return values, grouped
}

// decide decides the requests under a limit, and passes each decision to each with the units that were in use before
// it. The error is that of ctx.
func (b bySubject) decide(ctx context.Context, limit store.Limit, progress func(decided, denied int64),
	each func(r *trace.Request, allowed bool, used int64)) (tally Tally, err error) {
	var state store.State
	capacity := limit.Capacity()
	for i := range b {
		if i%checkEvery == 0 {
			if ctx.Err() != nil {
				return tally, ctx.Err()
			}
			progress(int64(i), tally.Denied)
		}
		r := &b[i]
		if i > 0 && r.Subject != b[i-1].Subject {
			state = store.State{}
		}
		cost, used := int64(r.Cost), state.Used(r.At)
		allowed := used+cost <= capacity
		if allowed {
			state.Charge(limit, cost, r.At)
		}
		tally.Add(r.Subject, allowed)
		each(r, allowed, used)
	}
	progress(int64(len(b)), tally.Denied)
	return tally, nil
}

// maxIntervals bounds a timeline.
const maxIntervals = 200

// timelineInterval returns the shortest round interval that divides a span into few enough parts.
func timelineInterval(span time.Duration) time.Duration {
	const day = 24 * time.Hour
	intervals := []time.Duration{
		time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond,
		50 * time.Millisecond,
		100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond,
		time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 15 * time.Second, 30 * time.Second,
		time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute,
		time.Hour, 2 * time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour, day, 2 * day, 5 * day, 10 * day,
		30 * day,
	}
	for _, interval := range intervals {
		if span < maxIntervals*interval {
			return interval
		}
	}
	return (span/maxIntervals/day + 1) * day
}

// simulator is a simulation under way.
type simulator struct {
	options    SimulateOptions
	result     *Simulation
	population *TracePopulation
	states     [][]store.State  // of each limit's keys
	auditors   []*audit.Auditor // of each limit
	// Of the request under way.
	current   []*store.State
	decisions []store.Decision
}

func (s *simulator) run(ctx context.Context, t *trace.Trace) error {
	for i := range t.Requests {
		if i%checkEvery == 0 {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			s.options.Progress(int64(i), s.result.tally.Denied)
		}
		if err := s.decide(ctx, &t.Requests[i]); err != nil {
			return err
		}
	}
	return nil
}

// decide decides a request.
func (s *simulator) decide(ctx context.Context, r *trace.Request) error {
	subject := s.population.SubjectOf(r.Subject)
	reqs, keys := s.population.Requests(subject), s.population.KeyIndexes(subject)
	fits := true
	for j := range reqs {
		reqs[j].Cost = costOf(s.population.own, j, int64(r.Cost))
		s.current[j] = &s.states[j][keys[j]]
		fits = fits && !reqs[j].NeverFits(store.Take)
	}
	if !fits {
		s.result.NeverFits++
	}
	var err error
	if fits && s.options.Store != nil {
		s.options.Clock.set(r.At)
		err = s.options.Store.Decide(ctx, store.Take, reqs, s.decisions)
	} else {
		_, err = store.Decide(store.Take, reqs, s.current, s.decisions, nil, r.At)
	}
	if err != nil {
		return err
	}
	allowed := store.AllAllowed(s.decisions)
	s.result.tally.Add(subject, allowed)
	s.result.count(r.At, allowed)
	first := uint32(0) // of the limit's keys
	for j := range s.decisions {
		d := &s.decisions[j]
		if !reqs[j].Shadow && (allowed || !d.Allowed) {
			s.result.ByKey.Add(first+keys[j], allowed)
		}
		first += uint32(len(s.states[j]))
		s.auditors[j].Observe(audit.Observation{Key: keys[j], At: r.At, Cost: reqs[j].Cost, Leave: reqs[j].Leave,
			Allowed: d.Allowed, Charged: allowed && d.Allowed})
	}
	return nil
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
	i, _ := slices.BinarySearchFunc(c.timers, t.at+1, func(t timer, at store.Instant) int {
		return cmp.Compare(t.at, at)
	})
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

// Package loadgen sends recorded or generated load to rate limits, and counts the results. It prints nothing, and
// works with any [store.Store].
package loadgen

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/limitctl/limitctl/internal/sys"
	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/loadgen/audit"
	"github.com/limitctl/limitctl/pkg/loadgen/audit/interval"
)

const (
	// collectEvery is the time between two collections of the workers' records.
	collectEvery = 20 * time.Millisecond
	// ProgressEvery is the time between two reports of progress, unless [Config] has another one.
	ProgressEvery = 200 * time.Millisecond
	// busyAfter is the wait after which a request counts as one that found no worker free.
	busyAfter = time.Millisecond
	// maxErrorTexts bounds the number of different errors that are counted separately.
	maxErrorTexts = 20
)

// collector adds the workers' records to a Result during the run, so that the memory does not grow with the number
// of requests.
type collector struct {
	run      *runner
	auditors []*audit.Auditor
	partial  Result
	tally    *Tally
	// recent are the latencies of the last two intervals, in turns: the workers' records come a little out of order.
	recent   [2]*hdrhistogram.Histogram
	interval time.Duration // of the timeline
	errors   map[string]int64
	// answered is the time of the last answer, since the beginning.
	answered time.Duration

	clock     clockWatch
	pending   []answer            // those not yet audited
	turns     []turn              // of those that are audited now
	intervals []*interval.Auditor // of each limit, if intervals are audited
	spare     batch

	// As in the [Result].
	latency, service, allowedService, deniedService, errorLatency, lag *hdrhistogram.Histogram

	dropping sync.Mutex // guards what workers add directly
	drops    []int64    // in each interval
}

func newCollector(r *runner) *collector {
	c := &collector{
		run: r, tally: &Tally{}, errors: map[string]int64{},
		interval: max(100*time.Millisecond, timelineInterval(r.end)),
		recent:   [2]*hdrhistogram.Histogram{newHistogram(), newHistogram()},
		latency:  newHistogram(), service: newHistogram(), errorLatency: newHistogram(), lag: newHistogram(),
		allowedService: newHistogram(), deniedService: newHistogram(),
	}
	if r.Intervals == nil {
		c.auditors = r.Population.auditors()
	}
	r.ahead.Store(c.clock.farAhead().Microseconds())
	c.auditIntervals()
	return c
}

// addDrop counts a request that was due at that time and could not be sent in time.
func (c *collector) addDrop(due time.Duration) {
	c.dropping.Lock()
	defer c.dropping.Unlock()
	i := int(due / c.interval)
	for len(c.drops) <= i {
		c.drops = append(c.drops, 0)
	}
	c.drops[i]++
}

// collect runs until the workers have finished and all their records are audited.
func (c *collector) collect(finished <-chan struct{}) {
	timer, told := time.NewTimer(collectEvery), time.Duration(0)
	for {
		slept := c.run.elapsed()
		timer.Reset(collectEvery)
		select {
		case <-finished:
			c.fetchAll()
			c.fold(store.Instant(idle))
			c.foldIntervals(store.Instant(idle))
			return
		case <-timer.C:
		}
		c.run.pulse.Store(int64(c.run.elapsed() - slept - collectEvery))
		c.step()
		if now := c.run.elapsed(); c.run.Progress != nil && now-told >= cmp.Or(c.run.ProgressEvery, ProgressEvery) {
			told = now
			c.run.Progress(c.result(now))
		}
	}
}

// step collects the records, and audits the answers that no later answer can precede. A worker that was idle after the
// newest instant was known can only get a later one. A busy worker has a lower bound for the instant of its answer.
func (c *collector) step() {
	complete := c.complete()
	c.fetchAll()
	safe := c.run.newest.Load()
	for _, w := range c.run.workers {
		safe = min(safe, w.watermark.Load())
	}
	c.fetchAll() // the answers that came meanwhile from workers that looked idle
	c.fold(store.Instant(safe - c.run.Skew.Microseconds()))
	c.foldIntervals(store.InstantOf(c.run.begin.Add(complete)))
}

// fetchAll collects the records of all workers.
func (c *collector) fetchAll() {
	newest := c.run.newest.Load()
	for _, w := range c.run.workers {
		b := w.fetch(c.spare)
		first, errored := 0, 0 // of a sample's answers, and of the errors
		for i := range b.samples {
			s := &b.samples[i]
			c.add(s)
			if !s.warmup && (s.outcome == failed || s.outcome == unknown) {
				c.addError(b.errors[errored])
				errored++
			}
			c.time(s, b.answers[first:first+int(s.answers)])
			first += int(s.answers)
		}
		for _, u := range b.unknown {
			until := u.at + store.Instant((c.clock.ahead.most+c.run.Skew)/time.Microsecond)
			c.auditors[u.limit].Unknown(u.key, int64(u.cost), until)
		}
		c.partial.ClockWentBack += b.early
		for i := range b.answers {
			newest = max(newest, int64(b.answers[i].at))
		}
		c.pending = append(c.pending, b.answers...)
		c.addIntervals(b.intervals)
		b.reset()
		c.spare = b
	}
	c.run.newest.Store(newest)
	c.run.ahead.Store(c.clock.farAhead().Microseconds())
}

// time compares the instant of a sample's answers with this machine's clock. If the instant is impossible, the
// answers are audited by this machine's clock, and their figures are not judged.
func (c *collector) time(s *sample, answers []answer) {
	if len(answers) == 0 || c.clock.hold(s.at, s.answered-s.service, s.answered) {
		return
	}
	for i := range answers {
		answers[i].at, answers[i].tells, answers[i].doubted = c.clock.instant(s.answered), false, true
	}
}

// fold audits the answers before the instant safe.
func (c *collector) fold(safe store.Instant) {
	c.turns = c.turns[:0]
	for i := range c.pending {
		if c.pending[i].at < safe {
			c.turns = append(c.turns, c.pending[i].turn(i))
		}
	}
	slices.SortFunc(c.turns, compareTurns)
	for _, t := range c.turns {
		a := &c.pending[t.index]
		if a.doubted {
			c.auditors[a.limit].Doubt(a.key)
		}
		o := audit.Observation{Key: a.key, At: a.at, Cost: int64(a.cost), Leave: int64(a.leave), Allowed: a.allowed,
			Charged: a.charged}
		if a.tells {
			o.Reported = &a.figures
		}
		c.auditors[a.limit].Observe(o)
	}
	c.pending = slices.DeleteFunc(c.pending, func(a answer) bool { return a.at < safe })
}

// add counts and times one request.
func (c *collector) add(s *sample) {
	p := &c.partial
	c.answered = max(c.answered, s.answered)
	decided := s.outcome == allowed || s.outcome == denied
	if decided {
		p.Decided++
	}
	if s.warmup {
		return
	}
	if decided {
		record(c.service, s.service)
		record(c.latency, s.latency)
		if s.latency > c.run.LateAfter {
			p.Late++
		}
	} else {
		record(c.errorLatency, s.latency)
	}
	if c.run.Load != nil {
		record(c.lag, s.lag)
	}
	// A free worker that waits for the processor is not busy.
	if s.waited && s.latency-s.service > busyAfter {
		p.Waited++
	}
	i := int(s.answered / c.interval)
	c.openInterval(i)
	part := &p.Timeline[i]
	p.Requests++
	switch s.outcome {
	case unknown:
		p.Unknown++
		fallthrough
	case failed:
		p.Errors++
		part.Errors++
	case allowed:
		p.Allowed++
		part.Allowed++
		record(c.allowedService, s.service)
		c.tally.Add(s.subject, true)
	case denied:
		p.Denied++
		part.Denied++
		record(c.deniedService, s.service)
		c.tally.Add(s.subject, false)
	}
	if i >= len(p.Timeline)-len(c.recent) {
		record(c.recent[i%len(c.recent)], s.latency)
	}
}

// openInterval extends the timeline to interval i.
func (c *collector) openInterval(i int) {
	p := &c.partial
	for len(p.Timeline) <= i {
		n := len(p.Timeline)
		h := c.recent[n%len(c.recent)]
		if before := n - len(c.recent); before >= 0 {
			p.Timeline[before].time(h)
		}
		h.Reset()
		p.Timeline = append(p.Timeline, c.emptyInterval(n))
	}
}

// emptyInterval returns the beginning of interval n.
func (c *collector) emptyInterval(n int) Interval {
	return Interval{OffsetMS: int64(n) * c.interval.Milliseconds()}
}

// time stores the latencies of an interval.
func (i *Interval) time(h *hdrhistogram.Histogram) {
	i.P50, i.P99, i.Max = h.ValueAtPercentile(50), h.ValueAtPercentile(99), h.Max()
}

// addError counts the error of a request by its text. The number of different texts is bounded, since each error can
// have its own.
func (c *collector) addError(err error) {
	if sys.IsTimeout(err) {
		c.partial.TimedOut++
	}
	text := err.Error()
	if _, known := c.errors[text]; !known && len(c.errors) == maxErrorTexts {
		text = "other errors"
	}
	if c.errors[text] == 0 && c.partial.FirstError == nil {
		c.partial.FirstError = err
	}
	c.errors[text]++
}

// result returns the result so far.
func (c *collector) result(elapsed time.Duration) *Result {
	r := c.partial
	r.StartedAt, r.DurationMS, r.LateAfterMS = c.run.begin.UTC(), milliseconds(elapsed), c.run.LateAfter.Milliseconds()
	r.WarmupMS = min(milliseconds(c.run.Warmup), r.DurationMS)
	if counted := elapsed - c.run.Warmup; counted > 0 {
		r.ThroughputPerS = float64(r.Allowed+r.Denied) / counted.Seconds()
	}
	r.IntervalMS, r.Timeline = c.interval.Milliseconds(), slices.Clone(r.Timeline)
	for n := max(0, len(r.Timeline)-len(c.recent)); n < len(r.Timeline); n++ {
		r.Timeline[n].time(c.recent[n%len(c.recent)])
	}
	c.dropping.Lock()
	for i, drops := range c.drops {
		r.Dropped += drops
		for len(r.Timeline) <= i {
			r.Timeline = append(r.Timeline, c.emptyInterval(len(r.Timeline)))
		}
		r.Timeline[i].Dropped = drops
	}
	c.dropping.Unlock()
	r.Latency, r.Service, r.ErrorLatency = QuantilesOf(c.latency), QuantilesOf(c.service), QuantilesOf(c.errorLatency)
	r.AllowedService, r.DeniedService = QuantilesOf(c.allowedService), QuantilesOf(c.deniedService)
	if c.run.Load != nil {
		r.Lag = QuantilesOf(c.lag)
		r.GeneratorLimited = c.run.throttled.Load() || isGeneratorLimited(c.lag, c.service, c.errorLatency)
	}
	r.Tally, r.Keys, r.KeysDenied = c.tally, c.tally.Keys, c.tally.KeysDenied
	r.Clock = c.clock.result()
	r.ErrorTexts = commonest(c.errors)
	findings := findingsOf(c.auditors)
	if c.intervals != nil {
		findings = findingsOf(c.intervals)
	}
	p := c.run.Population
	r.setFindings(findings, p.isShadow, func(limit int, key uint32) string { return p.KeyOf(limit, key).Subject })
	return &r
}

// Tally counts allowed and denied requests of each subject. The zero Tally is empty. It is for one goroutine.
type Tally struct {
	// Allowed and Denied are the requests of all subjects.
	Allowed, Denied int64
	// Keys is the subjects with a request, and KeysDenied those that were denied at least once.
	Keys, KeysDenied int64

	subjects []SubjectCount // by Subject, which is not set
}

// SubjectCount is the counts of one subject.
type SubjectCount struct {
	Subject         uint32
	Allowed, Denied int64
}

// Add counts a request of a subject. Subjects are small numbers, since the Tally has memory for each up to the highest.
func (t *Tally) Add(subject uint32, allowed bool) {
	if missing := int(subject) + 1 - len(t.subjects); missing > 0 {
		t.subjects = append(t.subjects, make([]SubjectCount, missing)...)
	}
	c := &t.subjects[subject]
	if c.Allowed+c.Denied == 0 {
		t.Keys++
	}
	if allowed {
		t.Allowed++
		c.Allowed++
		return
	}
	if c.Denied == 0 {
		t.KeysDenied++
	}
	t.Denied++
	c.Denied++
}

// Of returns the counts of one subject.
func (t *Tally) Of(subject uint32) (c SubjectCount) {
	if int(subject) < len(t.subjects) {
		c = t.subjects[subject]
	}
	c.Subject = subject
	return c
}

// MostDenied returns the n subjects with the most denials, or fewer if not that many were denied. Among equals the
// one with more requests comes first, then the lower number.
func (t *Tally) MostDenied(n int) (denied []SubjectCount) {
	for i := range t.subjects {
		if c := t.Of(uint32(i)); c.Denied > 0 {
			denied = append(denied, c)
		}
	}
	slices.SortFunc(denied, func(a, b SubjectCount) int {
		return cmp.Or(cmp.Compare(b.Denied, a.Denied), cmp.Compare(b.Allowed, a.Allowed),
			cmp.Compare(a.Subject, b.Subject))
	})
	return slices.Clip(denied[:min(n, len(denied))])
}

package loadgen

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/limitctl/limitctl/internal/panics"
	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/loadgen/audit/interval"
)

// Config is a run of a load against a store.
type Config struct {
	Store      store.Store
	Population *Population
	// Load makes an open loop: its requests are sent when they are due, even if the store is slow. Without a Load
	// it is a closed loop: each worker sends a request of Mix when its last one is answered.
	Load Load
	Mix  Mix
	// Seed makes random choices repeatable.
	Seed uint64
	// Workers is the most requests that can be under way at once.
	Workers int
	// Nothing is sent after Duration, or after that many Requests unless Requests is 0.
	Duration time.Duration
	Requests int64
	// Warmup is the time at the beginning, within Duration, whose requests are audited but not counted or timed.
	Warmup time.Duration
	// Timeout bounds the wait for an answer; 0 means no bound. A request of an open loop that is late by more is
	// dropped, since a real caller would have given up.
	Timeout time.Duration
	// LateAfter is the latency above which an answer counts as late.
	LateAfter time.Duration
	// Divided: limits of different subjects are taken one after the other, and given back if a later one denies.
	// Then the figures of answers are true for a moment only, and are not audited.
	Divided bool
	// Skew is the largest difference of the clocks of the store's servers.
	Skew time.Duration
	// Intervals, if set, says that the instants of decisions are unknown, and the audit uses the intervals from
	// sending to answer.
	Intervals *interval.Options
	// Behind, if set, is called as soon as the requests of an open loop have begun late for a while.
	Behind func()
	// Progress, if set, is called from time to time with the result so far. ProgressEvery is the time between two
	// calls, by default [ProgressEvery].
	Progress      func(*Result)
	ProgressEvery time.Duration
}

// drainGrace is the time after the end of a run in which a request that was due before the end may still be sent; with
// a long timeout it is a fortieth of that.
const drainGrace = 50 * time.Millisecond

// idle is the watermark of a worker that has no request under way.
const idle = int64(1<<63 - 1)

// runner is a run under way.
type runner struct {
	Config
	begin time.Time
	end   time.Duration // when the sending ends, from begin
	ctx   context.Context
	stop  context.CancelFunc // ends the sending, but not the requests under way
	// collecting ends with the collecting.
	collecting context.Context
	workers    []*worker
	collector  *collector
	sent       atomic.Int64
	newest     atomic.Int64 // store.Instant, the newest that the collector has seen
	// mute: the figures of answers are not audited.
	mute bool
	// ahead is how many microseconds an instant may be ahead of this machine's clock and still be used.
	ahead     atomic.Int64
	deadlines deadlines
	// throttled: a worker had to wait for the collector.
	throttled atomic.Bool
	complete  bool // the load was handed out to its end; set after the sending
	// pulse is how late the collector woke when it last slept, in nanoseconds.
	pulse atomic.Int64
}

// Run sends the load to the store and returns the result. When ctx ends, it sends nothing more, and waits for the
// requests under way. The Result counts the store's errors; Run itself does not fail.
func Run(ctx context.Context, config Config) *Result {
	r := &runner{Config: config, end: config.Duration}
	r.ctx, r.stop = context.WithCancel(ctx)
	defer r.stop()
	r.deadlines = deadlines{timeout: config.Timeout}
	for i := range config.Workers {
		r.workers = append(r.workers, newWorker(r, uint64(i)))
	}
	r.mute = config.Divided && config.Population.spreads()
	r.collector = newCollector(r)
	r.begin = time.Now() // only now, since the preparation takes a while with many keys
	r.collector.clock = newClockWatch(r.begin, r.Skew)
	collected := make(chan error, 1)
	finished := make(chan struct{})
	var ended context.CancelFunc
	r.collecting, ended = context.WithCancel(context.Background())
	panics.Go(func() error { defer ended(); r.collector.collect(finished); return nil }, func(panicked error) {
		if panicked != nil {
			r.stop()
			for _, w := range r.workers {
				w.fetch(batch{}) // so that none waits
			}
		}
		collected <- panicked
	})
	send := (*worker).loop
	if config.Load != nil {
		h := newHandout(r)
		send = func(w *worker) { w.serve(h) }
	}
	var sending panics.Group
	for _, w := range r.workers {
		sending.Go(func() {
			defer func() {
				if panicked := recover(); panicked != nil {
					r.stop()
					panic(panicked)
				}
			}()
			send(w)
		})
	}
	panicked := sending.Wait()
	elapsed := r.elapsed()
	close(finished)
	if notCollected := <-collected; panicked == nil {
		panicked = notCollected
	}
	if panicked != nil {
		panic(panicked) // a panic of a goroutine, for whoever recovers here
	}
	if r.complete && r.ctx.Err() == nil {
		// The time that this machine needs to drop requests is not part of the run.
		elapsed = max(r.end, r.collector.answered)
	}
	return r.collector.result(elapsed)
}

// elapsed is the time since the beginning of the run.
func (r *runner) elapsed() time.Duration { return time.Since(r.begin) }

// worker sends one request after the other.
type worker struct {
	run       *runner
	chooser   chooser
	requests  []store.Request
	decisions []store.Decision
	timer     *time.Timer // until a request of an open loop is due
	waited    bool        // the request under way found all workers busy
	lag       time.Duration
	reported  *interval.Reported // by the answer of an Exchanger
	records
}

func newWorker(r *runner, number uint64) *worker {
	w := &worker{
		run:       r,
		requests:  make([]store.Request, r.Population.Limits()),
		decisions: make([]store.Decision, r.Population.Limits()),
	}
	if r.Load == nil {
		stream := streamWorkers + 2*number
		w.chooser = r.Mix.chooser(newRandom(r.Seed, stream), newRandom(r.Seed, stream+1))
	}
	w.watermark.Store(idle)
	w.sending.since.Store(idle)
	w.room.L = &w.mu
	return w
}

// loop sends a request as soon as the last one is answered.
func (w *worker) loop() {
	r := w.run
	for now := r.elapsed(); now < r.end && r.ctx.Err() == nil; {
		if r.Requests > 0 && r.sent.Add(1) > r.Requests {
			return
		}
		subject, cost := w.chooser.next()
		now = w.send(Arrival{Due: now, Subject: subject, Cost: cost}, now)
	}
}

// serve sends the requests of h.
func (w *worker) serve(h *handout) {
	r := w.run
	w.timer = time.NewTimer(0)
	for free := time.Duration(0); ; {
		a, now, ok := h.take(w, free)
		if !ok {
			return
		}
		if w.waited {
			// The lag without the wait for a worker shows in other requests.
			w.lag = min(w.lag, time.Duration(r.pulse.Load()))
		}
		free = w.send(a, now)
	}
}

// sleep sleeps with a timer, and returns false as soon as ctx ends.
func sleep(ctx context.Context, timer *time.Timer, d time.Duration) bool {
	timer.Reset(d)
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// drop counts a request that could not be sent in time.
func (r *runner) drop(a Arrival) {
	// A request that an interrupt prevents is not the store's fault.
	if a.Due >= r.Warmup && r.ctx.Err() == nil {
		r.collector.addDrop(a.Due)
	}
}

// send sends a request and records the answer. It returns the time at which the worker is ready for another request.
func (w *worker) send(a Arrival, sent time.Duration) time.Duration {
	r := w.run
	copy(w.requests, r.Population.Requests(a.Subject))
	for i := range w.requests {
		w.requests[i].Cost = costOf(r.Population.own, i, a.Cost)
	}
	// The decision cannot be before any that is already answered.
	w.watermark.Store(max(w.last, r.newest.Load()))
	sent = w.sending.begin(r, sent)
	if e, is := r.Store.(Exchanger); is {
		sent, answered, err := w.exchange(e, a, sent)
		w.record(r, a, sent, answered, err)
		return r.elapsed()
	}
	err := r.Store.Decide(r.deadlines.at(r.begin, sent), store.Take, w.requests, w.decisions)
	answered := r.elapsed()
	if w.record(r, a, sent, answered, err) {
		return r.elapsed()
	}
	return answered
}

// deadlines makes contexts that end a little more than a timeout from now; a store that has not answered by then is
// away. All requests of a short time share one, because making one for each would cost more than a decision.
type deadlines struct {
	timeout time.Duration
	current atomic.Pointer[deadline]
}

type deadline struct {
	ctx   context.Context
	until time.Duration // for requests that are sent before it
}

// granularity is the accuracy of a timeout: it can be longer by one part in that many.
const granularity = 8

func (d *deadlines) at(begin time.Time, now time.Duration) context.Context {
	if d.timeout <= 0 {
		return context.Background()
	}
	if current := d.current.Load(); current != nil && now < current.until {
		return current.ctx
	}
	until := now + d.timeout/granularity
	ctx, cancel := store.BudgetContext(context.Background(), time.Until(begin.Add(until+d.timeout)))
	context.AfterFunc(ctx, cancel) // releases it at its end, not before
	d.current.Store(&deadline{ctx, until})
	return ctx
}

// outcome is the outcome of a request.
type outcome uint8

const (
	allowed outcome = iota
	denied
	failed
	unknown
)

func outcomeOf(err error, decisions []store.Decision) outcome {
	switch {
	case errors.Is(err, store.ErrOutcomeUnknown):
		return unknown
	case err != nil:
		return failed
	case store.AllAllowed(decisions):
		return allowed
	}
	return denied
}

// handout gives the requests of an open loop to the workers, in the order of the schedule. A free worker takes the
// next one and sleeps until it is due, so that no other has to be woken. A timer can be a millisecond late; then all
// that are due meanwhile are sent together, so none is lost. If no worker is free for a request, it waits, and its
// wait counts.
type handout struct {
	run *runner
	// turn is held by the worker that takes a request. It is no mutex, because the load can wait, and in tests only a
	// wait for a channel lets virtual time go on.
	turn  chan struct{}
	taken int64

	mu sync.Mutex
	// lastDue is the due time of the last request that a worker began, and lastBegun when it did.
	lastDue, lastBegun time.Duration
	// inTime is when a request last began in time, and behind that the run knows that they do not.
	inTime time.Duration
	behind bool
}

// Requests are begun late if they have been later than lateBegin for as long as lateFor.
const lateBegin, lateFor = 10 * time.Millisecond, 100 * time.Millisecond

func newHandout(r *runner) *handout {
	return &handout{run: r, turn: make(chan struct{}, 1), lastDue: -1}
}

// next returns the next request, which may be due later. It returns false when there are no more.
func (h *handout) next() (a Arrival, ok bool) {
	h.turn <- struct{}{}
	defer func() { <-h.turn }()
	r := h.run
	if r.complete || r.Requests > 0 && h.taken == r.Requests {
		return a, false
	}
	if a, ok = r.Load.Next(); !ok || a.Due >= r.end {
		r.complete = true
		return a, false
	}
	h.taken++
	return a, true
}

// take returns the next request when it is due, and the time then. It returns false when there are no more. The
// worker has been free since free.
func (h *handout) take(w *worker, free time.Duration) (a Arrival, now time.Duration, ok bool) {
	r := h.run
	for r.ctx.Err() == nil {
		if a, ok = h.next(); !ok {
			break
		}
		for now = r.elapsed(); now < a.Due; now = r.elapsed() {
			if !sleep(r.ctx, w.timer, a.Due-now) {
				return a, now, false
			}
		}
		if now > r.end+max(drainGrace, r.Timeout/40) || r.Timeout > 0 && now-a.Due > r.Timeout {
			r.drop(a)
			continue
		}
		w.lag, w.waited = h.lag(a.Due, now), free > a.Due
		return a, now, true
	}
	return Arrival{}, now, false
}

// lag is how late a request is begun. Requests that are due at the same instant are begun one after the other, so
// the lag of each counts from the one before it.
func (h *handout) lag(due, now time.Duration) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	lag := now - due
	if due == h.lastDue {
		lag = min(lag, max(0, now-h.lastBegun))
	}
	h.lastDue, h.lastBegun = due, now
	switch {
	case now-due <= lateBegin:
		h.inTime = now
	case now-h.inTime > lateFor && !h.behind && h.run.Behind != nil:
		h.behind = true
		h.run.Behind()
	}
	return lag
}

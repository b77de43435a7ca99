package redisstore

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/panics"
	"github.com/limitctl/limitctl/internal/redisserver"
	"github.com/limitctl/limitctl/pkg/limiter"
)

const (
	// inFlight is how many exchanges with a node go on at once before callers
	// share one. Few make large batches. More let a caller on a slow network
	// wait less for its turn.
	inFlight = 4
	// maxBatch is how many calls share an exchange at most, so that the first
	// does not wait for very many others.
	maxBatch = 128
	// maxAbandoned is how many exchanges with a node may go on that nobody waits
	// for any more. Beyond it no exchange takes their place, so that a node which
	// hangs does not use up all connections and memory.
	maxAbandoned = 64
)

// lane sends calls to one node. A caller alone sends its own call. While several
// exchanges are under way, further calls queue, and go together in one pipeline each
// time an exchange ends. Every call stays a decision of its own and is sent once.
//
// Callers share exchanges and nothing else: each leaves at its own deadline, and an
// exchange that all its callers have left makes room for the next at once. A caller in
// the queue leaves also when its context is cancelled, one that sends by itself only when
// the answer has come or the budget is over.
type lane struct {
	client redis.UniversalClient
	// keepsDeadlines: client ends what it does at a context's deadline. No client
	// notices that a context is cancelled while it waits for the server.
	keepsDeadlines bool
	// endsInTime: client's own time-outs are within the budget, so that a caller alone
	// need not pay for a context that says the same.
	endsInTime bool

	scripts *scripts
	clock   func() time.Time // nil for the server's

	mu          sync.Mutex
	busy        int // exchanges under way that somebody waits for
	abandoned   int // exchanges under way that nobody waits for
	first, last *queued
	waiting     int // length of the queue from first to last
}

// queued is a call, or a decision to be merged with others into one, whose caller waits
// while others send it.
type queued struct {
	call     *call // nil for an ask
	ask      *ask  // nil for a call
	deadline time.Time
	done     chan struct{} // closed when the call has its answer

	// The lane's lock guards these.
	before, after *queued   // in the queue
	in            *exchange // nil while it is in the queue
}

// exchange is one pipeline of calls.
type exchange struct {
	calls   []*queued
	callers int                // of those, how many still wait for the answer
	cancel  context.CancelFunc // ends it
}

// newLane returns a lane to client.
func (s *sender) newLane(client redis.UniversalClient) *lane {
	l := &lane{client: client, scripts: s.scripts, clock: s.clock}
	if single, ok := client.(*redis.Client); ok {
		options := single.Options()
		l.keepsDeadlines = options.ContextTimeoutEnabled
		l.endsInTime = !longer(options.ReadTimeout, s.budget) && !longer(options.WriteTimeout, s.budget)
	}
	return l
}

// send sends c and waits for its answer until deadline, or until ctx ends. An error of
// a call that may have reached the server is a sentError.
func (l *lane) send(ctx context.Context, c *call, deadline time.Time) error {
	l.mu.Lock()
	if own, limited := ctx.Deadline(); l.busy < inFlight && (l.keepsDeadlines || !limited || own.After(deadline)) {
		l.busy++
		l.mu.Unlock()
		return l.sendAlone(ctx, c, deadline)
	}
	return l.wait(ctx, &queued{call: c, deadline: deadline, done: make(chan struct{})})
}

// isQuiet reports whether a call would be sent at once and by itself.
func (l *lane) isQuiet() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.busy < inFlight && l.first == nil
}

// ask is send for a decision that can be merged with others. Where none is under way it
// returns errAsk.
func (l *lane) ask(ctx context.Context, a *ask, deadline time.Time) error {
	if l.isQuiet() {
		return errAsk
	}
	l.mu.Lock()
	return l.wait(ctx, &queued{ask: a, deadline: deadline, done: make(chan struct{})})
}

// wait puts q into the queue and waits until it has its answer, until its deadline, or
// until ctx ends. The caller holds the lock, and wait returns it.
func (l *lane) wait(ctx context.Context, q *queued) error {
	late := time.NewTimer(time.Until(q.deadline))
	defer late.Stop()
	if own, limited := ctx.Deadline(); limited && own.Before(q.deadline) {
		q.deadline = own
	}
	l.append(q)
	l.start()
	l.mu.Unlock()
	select {
	case <-q.done:
		return q.outcome()
	case <-ctx.Done():
		return l.leave(q, ctx.Err())
	case <-late.C:
		return l.leave(q, errLate)
	}
}

// outcome returns what came of q, once it is done.
func (q *queued) outcome() error {
	if q.ask != nil {
		return q.ask.err
	}
	return q.call.outcome(q.call.Cmd.Err())
}

// withdraw keeps q from being sent, and reports whether it came in time for that.
func (q *queued) withdraw() bool {
	if q.ask != nil {
		return withdraw(&q.ask.state)
	}
	return withdraw(&q.call.state)
}

// sendAlone sends c in the caller's own goroutine, as one of the busy exchanges.
func (l *lane) sendAlone(ctx context.Context, c *call, deadline time.Time) error {
	defer l.ended()
	if own, limited := ctx.Deadline(); !l.endsInTime && (!limited || own.After(deadline)) {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline)
		defer cancel()
	}
	return c.outcome(panics.Call(func() error { return l.client.Process(ctx, c) }))
}

// errLate says that the store's own time for a call was over.
var errLate = lateError{}

type lateError struct{}

func (lateError) Error() string   { return "no answer in time" }
func (lateError) Timeout() bool   { return true }
func (lateError) Temporary() bool { return true }

// append puts q at the end of the queue. The caller holds the lock.
func (l *lane) append(q *queued) {
	if q.before = l.last; q.before == nil {
		l.first = q
	} else {
		q.before.after = q
	}
	l.last = q
	l.waiting++
}

// remove takes q out of the queue, wherever it is. The caller holds the lock.
func (l *lane) remove(q *queued) {
	if q.before == nil {
		l.first = q.after
	} else {
		q.before.after = q.after
	}
	if q.after == nil {
		l.last = q.before
	} else {
		q.after.before = q.before
	}
	q.before, q.after = nil, nil
	l.waiting--
}

// leave ends the waiting of q's caller because of reason.
func (l *lane) leave(q *queued, reason error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-q.done: // in the same moment
		return q.outcome()
	default:
	}
	if q.in == nil {
		l.remove(q)
		return reason
	}
	unsent := q.withdraw()
	if q.in.callers--; q.in.callers == 0 {
		q.in.cancel()
		l.busy--
		l.abandoned++
		l.start()
	}
	if unsent {
		return reason
	}
	return sentError{reason}
}

// start begins exchanges for what has queued, as far as there is room. The caller
// holds the lock.
func (l *lane) start() {
	for l.first != nil && l.busy < inFlight && l.abandoned < maxAbandoned {
		e := &exchange{callers: min(l.waiting, maxBatch)}
		e.calls = make([]*queued, e.callers)
		var end time.Time
		for i := range e.calls {
			q := l.first
			l.remove(q)
			q.in, e.calls[i] = e, q
			if q.deadline.After(end) {
				end = q.deadline
			}
		}
		var ctx context.Context
		ctx, e.cancel = context.WithDeadline(context.Background(), end)
		l.busy++
		panics.Go(func() error { return l.exchange(ctx, e) }, func(panicked error) { l.finish(e, panicked) })
	}
}

// exchange sends a batch. Each call, and each ask, has its own outcome afterwards.
func (l *lane) exchange(ctx context.Context, e *exchange) error {
	var asks []*ask
	calls := make([]*call, 0, len(e.calls))
	for _, q := range e.calls {
		if q.ask != nil {
			asks = append(asks, q.ask)
		} else {
			calls = append(calls, q.call)
		}
	}
	single := len(calls)
	decisions := merge(asks)
	for _, m := range decisions {
		calls = append(calls, m.call(ctx, l.scripts.decidingMany(m), true, l.reads(m), l.clock))
	}
	l.process(ctx, calls)
	var again []*call
	for i, m := range decisions {
		if redisserver.IsErrorReply(calls[single+i].Err(), "NOSCRIPT") { // before anything ran
			calls[single+i] = m.call(ctx, l.scripts.decidingMany(m), false, l.reads(m), l.clock)
			again = append(again, calls[single+i])
		}
	}
	l.process(ctx, again)
	for i, m := range decisions {
		m.took(calls[single+i])
	}
	return nil
}

// reads reports whether m's call is one that never writes.
func (l *lane) reads(m *merged) bool { return m.op == limiter.Peek && !l.scripts.noReadOnly.Load() }

// process sends calls in one go. Each has its own error afterwards.
func (l *lane) process(ctx context.Context, calls []*call) {
	switch len(calls) {
	case 0:
	case 1:
		l.client.Process(ctx, calls[0])
	default:
		pipe := l.client.Pipeline()
		for _, c := range calls {
			pipe.Process(ctx, c)
		}
		pipe.Exec(ctx)
	}
}

// finish tells the callers of an exchange that it is over.
func (l *lane) finish(e *exchange, panicked error) {
	e.cancel()
	for _, q := range e.calls {
		switch {
		case panicked == nil:
		case q.ask != nil:
			q.ask.err = sentError{panicked}
		default:
			q.call.SetErr(panicked)
		}
		close(q.done)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if e.callers == 0 {
		l.abandoned--
	} else {
		l.busy--
	}
	l.start()
}

// ended says that an exchange is over that was a caller's own.
func (l *lane) ended() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.busy--
	l.start()
}

// idle reports whether nothing is under way.
func (l *lane) idle() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.busy == 0 && l.abandoned == 0 && l.first == nil
}

package redisstore

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/panics"
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
// exchange that all its callers have left makes room for the next at once.
type lane struct {
	client redis.UniversalClient

	mu          sync.Mutex
	busy        int // exchanges under way that somebody waits for
	abandoned   int // exchanges under way that nobody waits for
	first, last *queued
	waiting     int // length of the queue from first to last
}

// queued is a call whose caller waits while others send it.
type queued struct {
	call     *call
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

// newLane returns a lane to client, whose exchanges take at most budget.
func newLane(client redis.UniversalClient, budget time.Duration) *lane {
	single, ok := client.(*redis.Client)
	if !ok {
		return &lane{client: client}
	}
	if options := single.Options(); longer(options.ReadTimeout, budget) || longer(options.WriteTimeout, budget) {
		single = single.WithTimeout(budget)
	}
	return &lane{client: single}
}

// longer reports whether a client's time-out exceeds budget. One that is not above 0
// is none at all.
func longer(timeout, budget time.Duration) bool { return timeout <= 0 || timeout > budget }

// send sends c and waits for its answer until deadline, or until ctx ends. An error of
// a call that may have reached the server is a sentError.
func (l *lane) send(ctx context.Context, c *call, deadline time.Time) error {
	l.mu.Lock()
	if l.busy < inFlight && ctx.Done() == nil { // nobody can call it off meanwhile
		l.busy++
		l.mu.Unlock()
		return l.sendAlone(ctx, c, deadline)
	}
	q := &queued{call: c, deadline: deadline, done: make(chan struct{})}
	if own, limited := ctx.Deadline(); limited && own.Before(deadline) {
		q.deadline = own
	}
	l.append(q)
	l.start()
	l.mu.Unlock()
	late := time.NewTimer(time.Until(deadline))
	defer late.Stop()
	select {
	case <-q.done:
		return c.outcome(c.Cmd.Err())
	case <-ctx.Done():
		return l.leave(q, ctx.Err())
	case <-late.C:
		return l.leave(q, errLate)
	}
}

// sendAlone sends c in the caller's own goroutine, as one of the busy exchanges.
func (l *lane) sendAlone(ctx context.Context, c *call, deadline time.Time) error {
	defer l.ended()
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
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
		return q.call.outcome(q.call.Cmd.Err())
	default:
	}
	if q.in == nil {
		l.remove(q)
		return reason
	}
	unsent := q.call.withdraw()
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

// exchange sends a batch. Each call has its own error afterwards.
func (l *lane) exchange(ctx context.Context, e *exchange) error {
	if len(e.calls) == 1 {
		l.client.Process(ctx, e.calls[0].call)
		return nil
	}
	pipe := l.client.Pipeline()
	for _, q := range e.calls {
		pipe.Process(ctx, q.call)
	}
	pipe.Exec(ctx)
	return nil
}

// finish tells the callers of an exchange that it is over.
func (l *lane) finish(e *exchange, panicked error) {
	e.cancel()
	for _, q := range e.calls {
		if panicked != nil {
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

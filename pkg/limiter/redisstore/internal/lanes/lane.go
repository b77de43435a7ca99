package lanes

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/panics"
	redisserver "github.com/limitctl/limitctl/internal/redis"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

const (
	// InFlight is how many exchanges with a node go on at once before callers
	// share one. More let a caller on a slow network wait less for its turn.
	InFlight = 4
	// sharing is how many of them callers share at most. Few make large batches. With
	// two the server has work while the answers of the last batch are handed out.
	sharing = 2
	// slowExchange is how long a caller waits for one of these to end before it does not
	// count: the network is slow, or a connection silent.
	slowExchange = 5 * time.Millisecond
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
	sender *Sender
	client redis.UniversalClient
	// keepsDeadlines: client ends what it does at a context's deadline. No client
	// notices that a context is cancelled while it waits for the server.
	keepsDeadlines bool
	// endsInTime: client's own time-outs are within the budget, and nobody else has its connections, so that a
	// caller alone need not pay for a context that says the same.
	endsInTime bool
	// endsAlone: a call ends within the budget under a context that says so. Otherwise a caller that sends its
	// own call could wait for longer, so it goes into the queue.
	endsAlone bool
	// connections is the size of client's pool. A caller that waits for a connection needs that context.
	connections int

	mu        sync.Mutex
	busy      int         // exchanges under way that somebody waits for
	abandoned int         // exchanges under way that nobody waits for
	batches   int         // of those that are busy, how many callers share
	shared    []*exchange // those that callers share, busy or abandoned
	// panicked: a hook of the application has panicked. If it did so during a dial, the client
	// holds a lock for ever, and a caller that sends its own call could wait past any deadline.
	panicked    bool
	first, last *queued
	waiting     int // length of the queue from first to last
	// watch ends the waiting of those for whom the store's time is over, and begins
	// exchanges for those who have waited for long. It is one timer for all callers.
	watch   *time.Timer
	watched time.Time // when it is set to; zero if it is not
}

// queued is a call, or a decision that can be merged with others into one, which its caller
// sends by itself or waits for while others send it.
type queued struct {
	call  *call         // what goes by itself; nil for an ask that others may share a call with
	ask   *ask          // nil for a call
	since time.Time     // when it came
	late  time.Time     // when the store's time for it is over
	end   time.Time     // when its caller leaves at the latest
	done  chan struct{} // has room for the one token that says that the waiting is over

	// The lane's lock guards these.
	before, after *queued   // in the queue
	in            *exchange // nil while it is in the queue
	over          bool      // it has its outcome, or its caller has left
	left          error     // why it has none, if the lane ended the waiting
}

// newLane returns a lane to client.
func (s *Sender) newLane(client redis.UniversalClient) *lane {
	l := &lane{sender: s, client: client}
	if single, ok := client.(*redis.Client); ok {
		options := single.Options()
		l.keepsDeadlines = options.ContextTimeoutEnabled
		l.connections = options.PoolSize
		answers := !Longer(options.ReadTimeout, s.Budget) && !Longer(options.WriteTimeout, s.Budget)
		if !answers && !s.Owned && !l.keepsDeadlines {
			l.client = single.WithTimeout(s.Budget) // on the same connections
			answers = true
		}
		dialing := time.Duration(max(1, options.DialerRetries)) * options.DialTimeout
		l.endsInTime = answers && s.Owned && !Longer(dialing, s.Budget)
		l.endsAlone = answers
	}
	l.endsAlone = l.endsAlone || s.Owned || l.keepsDeadlines
	return l
}

// send sends q and waits for its answer until it is late, or until ctx ends: by itself while it
// is quiet, and else with the others. An error of what may have reached the server is a sentError.
func (l *lane) send(ctx context.Context, q *queued) error {
	own, limited := ctx.Deadline() // before the lock: a context of the caller's own can panic
	caller, end, budgeted := store.BudgetOf(ctx)
	var callers time.Time
	if budgeted {
		callers, _ = caller.Deadline()
	}
	l.mu.Lock()
	if l.isQuiet() && (l.keepsDeadlines || !limited || own.After(q.late)) {
		l.busy++
		endsInTime := l.endsInTime && l.busy+l.abandoned <= l.connections
		l.mu.Unlock()
		return l.sendAlone(ctx, q, endsInTime)
	}
	if budgeted && l.keepBudget(end, q) {
		ctx, own = caller, callers
	}
	return q.shared(l.wait(ctx, own, q))
}

// isQuiet reports whether a call is sent at once and by itself. While callers share an
// exchange, others are better off sharing the next. The caller holds the lock.
func (l *lane) isQuiet() bool {
	return l.busy < InFlight && l.batches == 0 && l.first == nil && !l.panicked && l.endsAlone
}

// keepBudget makes the watch end the wait for q at end, too, when the time of [store.WithBudget] is over, and reports
// whether it did: then the caller's own context, which needs no timer, is enough. The watch relies on
// deadlines in the order of the queue, so a call with an earlier deadline than the one
// in front of it keeps the context with the timer. The caller holds the lock.
func (l *lane) keepBudget(end time.Time, q *queued) bool {
	if l.last != nil && end.Before(l.last.late) {
		if l.last.late.Sub(end) > slowExchange { // else they came in the same moment
			return false
		}
		end = l.last.late
	}
	q.late = earlier(q.late, end)
	return true
}

// wait puts q into the queue and waits until it has its answer, until the store's time is
// over, or until ctx ends, whose deadline is own, zero for none. The caller holds the lock, and wait returns it.
func (l *lane) wait(ctx context.Context, own time.Time, q *queued) error {
	if q.done == nil {
		q.done = make(chan struct{}, 1)
	}
	q.end = q.late
	if !own.IsZero() && own.Before(q.end) {
		q.end = own
	}
	l.append(q)
	l.start()
	if l.first == q {
		l.watchUntil(earlier(q.late, q.since.Add(slowExchange)))
	} else {
		l.watchUntil(q.late)
	}
	l.mu.Unlock()
	gone := ctx.Done()
	if gone == nil {
		<-q.done
		return q.outcome()
	}
	select {
	case <-q.done:
		return q.outcome()
	case <-gone:
		return l.leave(q, ctx.Err())
	}
}

// alone returns the call that q is by itself from now on.
func (q *queued) alone(ctx context.Context) *call {
	if q.call == nil {
		q.call = q.ask.alone(ctx)
	}
	return q.call
}

// place returns the key that decides which node of a Cluster q goes to, empty for any, and
// whether a replica can answer.
func (q *queued) place() (key string, reads bool) {
	if q.call == nil {
		return q.ask.keys[0], q.ask.op == store.Peek
	}
	return q.call.key, q.call.reads
}

// outcome returns what came of q, once it is done.
func (q *queued) outcome() error {
	switch {
	case q.left != nil:
		return q.left
	case q.call == nil:
		return q.ask.err
	}
	return q.call.outcome(q.call.Err())
}

// shared marks err, q's, if the whole exchange got no answer, and not only q.
func (q *queued) shared(err error) error {
	if err == nil || q.in == nil || redisserver.IsErrorReply(err, "") {
		return err
	}
	return &store.BatchError{Batch: q.in.number, Err: err}
}

// withdraw keeps q from being sent, and reports whether it came in time for that.
func (q *queued) withdraw() bool {
	if q.call == nil {
		return withdraw(&q.ask.state)
	}
	return withdraw(&q.call.state)
}

// sendAlone sends q in the caller's own goroutine, as one of the busy exchanges. endsInTime
// says that the client's own time-outs are enough.
func (l *lane) sendAlone(ctx context.Context, q *queued, endsInTime bool) error {
	panicked := true
	defer func() { l.ended(panicked) }()
	c := q.alone(ctx)
	if own, limited := ctx.Deadline(); !endsInTime && (!limited || own.After(q.late)) {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, q.late)
		defer cancel()
	}
	if l.sender.OnBatch != nil {
		l.sender.OnBatch(1)
	}
	err := l.processOne(ctx, c)
	_, panicked = errors.AsType[*panics.Error](err)
	return c.outcome(err)
}

// processOne sends c. A panic is its error.
func (l *lane) processOne(ctx context.Context, c *call) (err error) {
	defer panics.Catch(&err)
	return l.client.Process(ctx, c)
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
	if q.over { // in the same moment
		l.mu.Unlock()
		<-q.done
		return q.outcome()
	}
	defer l.mu.Unlock()
	return l.drop(q, reason)
}

// drop ends the waiting for q because of reason, and returns the error that says whether it
// was sent. The caller holds the lock.
func (l *lane) drop(q *queued, reason error) error {
	q.over = true
	if q.in == nil {
		l.remove(q)
		return reason
	}
	unsent := q.withdraw()
	if q.in.callers--; q.in.callers == 0 {
		q.in.cancel()
		l.busy--
		l.batches--
		l.abandoned++
		l.start()
	}
	if unsent {
		return reason
	}
	return sentError{reason}
}

// watchUntil sees to it that the lane looks after its callers at that time, or before. The
// caller holds the lock.
func (l *lane) watchUntil(at time.Time) {
	switch {
	case l.watch == nil:
		l.watch = time.AfterFunc(time.Until(at), l.lookAfter)
	case l.watched.IsZero() || at.Before(l.watched):
		l.watch.Reset(time.Until(at))
	default:
		return
	}
	l.watched = at
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// lookAfter is called when the watch's time has come.
func (l *lane) lookAfter() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.watched = time.Time{}
	now := time.Now()
	next := l.dropLate(now)
	if room := InFlight - l.busy; room > 0 && l.first != nil && now.Sub(l.first.since) >= slowExchange {
		each := (l.waiting + room - 1) / room // a connection that is silent must not cost them all
		for l.startOne(InFlight, each) {
		}
	}
	if l.first != nil && l.busy < InFlight {
		if at := earlier(l.first.late, l.first.since.Add(slowExchange)); next.IsZero() || at.Before(next) {
			next = at
		}
	}
	if !next.IsZero() {
		if soon := now.Add(slowExchange / 2); next.Before(soon) && l.first != nil && now.Sub(l.first.since) >= slowExchange {
			next = soon // there was no room
		}
		l.watchUntil(next)
	}
}

// dropLate ends the waiting of all for whom the store's time is over, and returns when it is
// for the first of the others; zero if there are none. The caller holds the lock.
func (l *lane) dropLate(now time.Time) (next time.Time) {
	var late []*queued
	look := func(q *queued) (isLate bool) {
		switch {
		case q.over:
		case !q.late.After(now):
			late = append(late, q)
			return true
		case next.IsZero() || q.late.Before(next):
			next = q.late
		}
		return false
	}
	for _, e := range l.shared {
		for _, q := range e.calls {
			look(q)
		}
	}
	for q := l.first; q != nil && look(q); q = q.after { // those who came first are late first
	}
	for _, q := range late {
		q.left = l.drop(q, errLate)
		q.done <- struct{}{}
	}
	return next
}

// ended says that an exchange is over that was a caller's own.
func (l *lane) ended(panicked bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.busy--
	l.panicked = l.panicked || panicked
	l.start()
}

// idle reports whether nothing is under way.
func (l *lane) idle() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.busy == 0 && l.abandoned == 0 && l.first == nil
}
